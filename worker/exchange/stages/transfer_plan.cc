#include "worker/exchange/stages/transfer_plan.h"

#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/field_checks.h"
#include "common/base/sha256.h"
#include "common/base/status_macros.h"
#include "common/os/shared_memory.h"

namespace tributary {
namespace {

// Far above what any machine has, and far below what overflows.
constexpr int64_t kMostBytes = int64_t{1} << 46;
constexpr int kMostSlots = 1 << 16;
constexpr int kMostRoutes = 1 << 16;

absl::Status CheckRoute(const TransferRoute& route) {
  const std::string path =
      absl::StrCat("transfer plan, ", StageTransfer::Kind_Name(route.kind),
                   " at boundary ", route.boundary);
  if (route.kind == StageTransfer::KIND_UNSPECIFIED ||
      !StageTransfer::Kind_IsValid(route.kind)) {
    return Error(path, "kind is unknown");
  }
  TRIBUTARY_RETURN_IF_ERROR(
      Between(path + ": boundary", route.boundary, 0, kMostRoutes));
  TRIBUTARY_RETURN_IF_ERROR(
      Between(path + ": max_bytes", route.max_bytes, 0, kMostBytes));
  return Between(path + ": slots", route.slots, 1, kMostSlots);
}

}  // namespace

absl::StatusOr<TransferPlan> TransferPlan::Create(
    std::vector<TransferRoute> routes, int64_t micro_batches) {
  TransferPlan plan;
  TRIBUTARY_RETURN_IF_ERROR(Between("transfer plan: routes",
                                    static_cast<int64_t>(routes.size()), 0,
                                    kMostRoutes));
  TRIBUTARY_RETURN_IF_ERROR(Between("transfer plan: micro_batches",
                                    micro_batches, 1, int64_t{1} << 30));
  std::string text =
      absl::StrCat("tributary-transfers-1\n", micro_batches, "\n");
  std::set<std::pair<int32_t, int>> seen;
  for (const TransferRoute& route : routes) {
    TRIBUTARY_RETURN_IF_ERROR(CheckRoute(route));
    if (!seen.emplace(route.boundary, route.kind).second) {
      return Error("transfer plan", StageTransfer::Kind_Name(route.kind),
                   " at boundary ", route.boundary, " is there twice");
    }
    const int64_t left = kMostBytes - plan.byte_begin_.back();
    if (SlotStride(route) > left / route.slots) {
      return Error("transfer plan", "a connection needs more than ", kMostBytes,
                   " bytes");
    }
    plan.slot_begin_.push_back(plan.slot_begin_.back() + route.slots);
    plan.byte_begin_.push_back(plan.byte_begin_.back() +
                               route.slots * SlotStride(route));
    absl::StrAppend(&text, StageTransfer::Kind_Name(route.kind), " ",
                    route.boundary, " ", route.max_bytes, " ", route.slots,
                    "\n");
    if (plan.slot_begin_.back() > kMostSlots) {
      return Error("transfer plan", "has more than ", kMostSlots, " slots");
    }
  }
  plan.routes_ = std::move(routes);
  plan.micro_batches_ = static_cast<int>(micro_batches);
  plan.signature_ = Sha256Hex(text);
  return plan;
}

int TransferPlan::Find(int32_t boundary, StageTransfer::Kind kind) const {
  for (size_t i = 0; i < routes_.size(); ++i) {
    if (routes_[i].boundary == boundary && routes_[i].kind == kind) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

absl::StatusOr<int> TransferPlan::RouteOf(const TransferKey& key,
                                          int64_t bytes) const {
  const int route = Find(key.boundary, key.kind);
  const bool exists =
      key.kind == StageTransfer::EVALUATION || key.micro_batch < micro_batches_;
  if (route < 0 || key.step < 0 || key.micro_batch < 0 || !exists) {
    return absl::InvalidArgumentError(absl::StrCat(
        DescribeTransfer(key), " is not in the transfer plan, which has ",
        routes_.size(), " routes and ", micro_batches_, " micro-batches"));
  }
  if (bytes < 0 || bytes > routes_[route].max_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(DescribeTransfer(key), " has ", bytes,
                     " bytes, expected at most ", routes_[route].max_bytes));
  }
  return route;
}

int64_t TransferPlan::SlotStride(const TransferRoute& route) {
  return RoundUpToPage(route.max_bytes);
}

}  // namespace tributary
