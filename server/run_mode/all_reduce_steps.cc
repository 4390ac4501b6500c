#include "server/run_mode/all_reduce_steps.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tributary {

absl::Status AllReduceSteps::OnReady(int64_t worker, const Ready& ready) {
  return stages_ == nullptr ? absl::OkStatus()
                            : stages_->OnReady(worker, ready);
}

void AllReduceSteps::Begin(int64_t version, const Ready& ready) {
  if (stages_ != nullptr) stages_->Begin(version, ready);
}

absl::StatusOr<std::vector<std::string>> AllReduceSteps::ChooseStages() {
  return stages_ == nullptr ? RunMode::ChooseStages() : stages_->ChooseStages();
}

std::map<int64_t, std::vector<CoordinatorOrder>> AllReduceSteps::OrderStages(
    absl::Time now) {
  if (stages_ == nullptr || group_.begun()) return {};
  return stages_->OrderStages(now);
}

bool AllReduceSteps::OnSynced(const Member& worker, const Synced& synced) {
  return stages_ == nullptr || stages_->OnSynced(worker, synced);
}

std::map<int64_t, std::vector<CoordinatorOrder>> AllReduceSteps::Assign(
    int64_t pieces, absl::Time now) {
  if (group_.begun()) return {};
  std::map<int64_t, std::vector<CoordinatorOrder>> orders =
      stages_ == nullptr ? OrdersFor(membership().AssignWork(
                               pieces, now, /*spares_rest=*/true))
                         : stages_->Assign(pieces, now);
  std::map<int64_t, Deal> assignments;
  for (const auto& [worker, list] : orders) {
    for (const CoordinatorOrder& order : list) {
      if (order.has_deal()) assignments[worker] = order.deal();
    }
  }
  group_.Begin(assignments, job().exchange().all_reduce().backend());
  for (auto& [worker, list] : orders) {
    if (group_.Has(worker)) list.push_back(group_.OrderTo(worker));
  }
  return orders;
}

const Member* AllReduceSteps::Awaited(int64_t step) const {
  if (stages_ != nullptr && !group_.begun()) return stages_->Awaited(step);
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

void AllReduceSteps::RemoveWorker(int64_t worker) {
  if (stages_ != nullptr) stages_->RemoveWorker(worker);
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

int AllReduceSteps::Places() const {
  if (stages_ != nullptr) return stages_->Places();
  return std::min(membership().synced_count(),
                  static_cast<int>(job().batch().micro_batches()));
}

absl::Status AllReduceSteps::OnCheckpoint() const {
  if (!group_.begun()) return absl::OkStatus();
  const int places = Places();
  if (places <= group_.size()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("the all-reduce restarts with ",
                                             places, " workers instead of ",
                                             group_.size()));
}

}  // namespace tributary
