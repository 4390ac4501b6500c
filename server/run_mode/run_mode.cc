#include "server/run_mode/run_mode.h"

#include "common/job/exchange_traits.h"

namespace tributary {

std::map<int64_t, std::vector<CoordinatorOrder>> RunMode::Assign(
    int64_t pieces, absl::Time now) {
  return OrdersFor(membership_.AssignWork(pieces, now));
}

bool RunMode::AssignmentIsSlow(absl::Time now) const {
  return membership_.AssignmentIsSlow(now);
}

bool RunMode::servers_await_norms() const {
  return ResolveExchange(job_).updates_await_norm;
}

absl::Status RunMode::RequestStep(const Member&) {
  return absl::FailedPreconditionError(
      "a request for a step before Synced, or outside of asynchronous mode");
}

absl::Status RunMode::CheckReportsSums(int64_t) const {
  return absl::FailedPreconditionError(
      "step sums from a worker that is not the first of an all-reduce");
}

absl::Status RunMode::Publish(int64_t, const Publication&) {
  return absl::FailedPreconditionError(
      "a publication from a worker that is in no all-reduce");
}

void RunMode::OrderSnapshot(const ServerOrder& order, bool) {
  servers_.Send(order);
}

std::map<int64_t, std::vector<CoordinatorOrder>> OrdersFor(
    const std::map<int64_t, Deal>& assignments) {
  std::map<int64_t, std::vector<CoordinatorOrder>> orders;
  for (const auto& [worker, assignment] : assignments) {
    CoordinatorOrder order;
    *order.mutable_deal() = assignment;
    orders[worker].push_back(order);
  }
  return orders;
}

}  // namespace tributary
