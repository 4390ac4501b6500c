#include "server/run_mode/all_reduce_steps.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tributary {

std::map<int64_t, std::vector<CoordinatorOrder>> AllReduceSteps::Assign(
    int64_t pieces, absl::Time now) {
  if (group_.begun()) return {};
  const std::map<int64_t, Deal> assignments =
      membership().AssignWork(pieces, now, /*spares_rest=*/true);
  group_.Begin(assignments, job().exchange().all_reduce().backend());
  std::map<int64_t, std::vector<CoordinatorOrder>> orders =
      OrdersFor(assignments);
  for (auto& [worker, list] : orders) list.push_back(group_.OrderTo(worker));
  return orders;
}

const Member* AllReduceSteps::Awaited(int64_t step) const {
  const Member* const silent = membership().Find(group_.Silent());
  if (silent != nullptr) return silent;
  const Member* const late = membership().Find(group_.LateSaver(step));
  if (late != nullptr) return late;
  const Member* const straggler = membership().Straggler(step);
  return straggler != nullptr ? straggler : membership().LastInSteps();
}

absl::Status AllReduceSteps::CheckReportsSums(int64_t worker) const {
  return group_.Reports(worker) ? absl::OkStatus()
                                : RunMode::CheckReportsSums(worker);
}

absl::Status AllReduceSteps::Publish(int64_t worker,
                                     const Publication& publication) {
  return group_.Publish(worker, publication);
}

absl::Status AllReduceSteps::OnWorkerLost(int64_t worker,
                                          const std::string& name) {
  if (!group_.Has(worker)) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("lost ", name, "; an all-reduce needs all of its members"));
}

void AllReduceSteps::OrderSnapshot(const ServerOrder& order, bool kept) {
  group_.OrderSave(order.snapshot(), /*asks=*/!kept);
}

std::optional<SnapshotReport> AllReduceSteps::OnSaved(int64_t worker,
                                                      const Saved& saved) {
  return group_.OnSaved(worker, saved);
}

void AllReduceSteps::OrderWaitingSnapshot(int64_t completed) {
  if (const auto kept = group_.TakeKept(completed)) servers().Send(*kept);
}

bool AllReduceSteps::HasState(int64_t version) const {
  return group_.Kept(version);
}

absl::Status AllReduceSteps::OnCheckpoint() const {
  if (!group_.begun()) return absl::OkStatus();
  const int places = std::min(membership().synced_count(),
                              static_cast<int>(job().batch().micro_batches()));
  if (places <= group_.size()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("the all-reduce restarts with ",
                                             places, " workers instead of ",
                                             group_.size()));
}

}  // namespace tributary
