#include "server/run_mode/all_reduce_group.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

namespace tributary {

void AllReduceGroup::Begin(const std::map<int64_t, Deal>& assignments,
                           AllReduceSpec::Backend wanted) {
  // By first micro-batch and first stage.
  std::map<std::pair<int, int>, int64_t> by_work;
  for (const auto& [incarnation, assignment] : assignments) {
    if (assignment.leaf_begin() == assignment.leaf_end()) continue;
    by_work[{assignment.leaf_begin(), assignment.stage_begin()}] = incarnation;
  }
  for (const auto& [work, incarnation] : by_work) {
    group_.add_leaf_begin(work.first);
    if (assignments.at(incarnation).stage_end() > 0) {
      group_.add_stage_begin(work.second);
    }
    members_.push_back(incarnation);
  }
  saved_.assign(members_.size(), 0);
  group_.set_nccl(wanted == AllReduceSpec::NCCL);
  if (wanted != AllReduceSpec::AUTO) return;
  // NCCL does not support two members on one GPU.
  std::set<std::string> distinct;
  for (const int64_t member : members_) {
    const auto found = membership_.members().find(member);
    if (found == membership_.members().end()) continue;
    const std::string& gpu = found->second.nccl_device;
    if (!gpu.empty()) distinct.insert(gpu);
  }
  group_.set_nccl(distinct.size() == members_.size());
}

bool AllReduceGroup::Has(int64_t incarnation) const {
  return std::find(members_.begin(), members_.end(), incarnation) !=
         members_.end();
}

CoordinatorOrder AllReduceGroup::OrderTo(int64_t incarnation) const {
  CoordinatorOrder order;
  *order.mutable_group() = group_;
  order.mutable_group()->set_member(static_cast<int>(
      std::find(members_.begin(), members_.end(), incarnation) -
      members_.begin()));
  return order;
}

void AllReduceGroup::Send(const CoordinatorOrder& order) const {
  for (const int64_t incarnation : members_) {
    const auto found = membership_.members().find(incarnation);
    if (found != membership_.members().end()) found->second.link->Send(order);
  }
}

absl::Status AllReduceGroup::Publish(int64_t incarnation,
                                     const Publication& publication) {
  if (!Has(incarnation)) {
    return absl::FailedPreconditionError(
        "a publication from a worker that is in no all-reduce");
  }
  published_.insert(incarnation);
  CoordinatorOrder order;
  *order.mutable_publication() = publication;
  Send(order);
  return absl::OkStatus();
}

void AllReduceGroup::OrderSave(const TakeSnapshot& order, bool asks) {
  awaited_ = order;
  if (!asks) return;
  CoordinatorOrder save;
  save.mutable_save()->set_version(order.version());
  Send(save);
}

std::optional<SnapshotReport> AllReduceGroup::OnSaved(int64_t incarnation,
                                                      const Saved& saved) {
  if (saved.passed()) {
    if (!awaited_.has_value() || awaited_->version() != saved.version()) {
      return std::nullopt;
    }
    awaited_.reset();
    SnapshotReport report;
    report.set_version(saved.version());
    report.set_outcome(SnapshotReport::PASSED);
    return report;
  }
  for (size_t i = 0; i < members_.size(); ++i) {
    if (members_[i] == incarnation) {
      saved_[i] = std::max(saved_[i], saved.version());
    }
  }
  return std::nullopt;
}

bool AllReduceGroup::Kept(int64_t version) const {
  return begun() &&
         std::all_of(saved_.begin(), saved_.end(),
                     [version](int64_t saved) { return saved >= version; });
}

int64_t AllReduceGroup::Silent() const {
  for (const int64_t member : members_) {
    if (!published_.empty() && published_.count(member) == 0) return member;
  }
  return 0;
}

int64_t AllReduceGroup::LateSaver(int64_t version) const {
  int64_t late = 0;
  bool any_saved = false;
  for (size_t i = 0; i < members_.size(); ++i) {
    if (saved_[i] >= version) {
      any_saved = true;
    } else if (late == 0) {
      late = members_[i];
    }
  }
  return any_saved || members_.size() == 1 ? late : 0;
}

std::optional<ServerOrder> AllReduceGroup::TakeKept(int64_t completed) {
  if (!awaited_.has_value() || awaited_->version() > completed ||
      !Kept(awaited_->version())) {
    return std::nullopt;
  }
  ServerOrder order;
  *order.mutable_snapshot() = *std::exchange(awaited_, std::nullopt);
  return order;
}

}  // namespace tributary
