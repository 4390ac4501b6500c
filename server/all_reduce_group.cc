#include "server/all_reduce_group.h"

#include <algorithm>
#include <set>
#include <utility>

namespace tributary {

void AllReduceGroup::Begin(const std::map<int64_t, Deal>& deals,
                           AllReduceSpec::Backend wanted,
                           const std::map<int64_t, std::string>& gpus) {
  std::map<int, int64_t> by_leaf;
  for (const auto& [incarnation, deal] : deals) {
    if (deal.leaf_begin() < deal.leaf_end()) {
      by_leaf[deal.leaf_begin()] = incarnation;
    }
  }
  for (const auto& [leaf, incarnation] : by_leaf) {
    leaf_begin_.push_back(leaf);
    members_.push_back(incarnation);
  }
  saved_.assign(members_.size(), 0);
  nccl_ = wanted == AllReduceSpec::NCCL;
  if (wanted != AllReduceSpec::AUTO) return;
  // NCCL refuses two members on one GPU.
  std::set<std::string> distinct;
  for (const int64_t member : members_) {
    const auto gpu = gpus.find(member);
    if (gpu != gpus.end() && !gpu->second.empty()) distinct.insert(gpu->second);
  }
  nccl_ = distinct.size() == members_.size();
}

bool AllReduceGroup::Has(int64_t incarnation) const {
  return std::find(members_.begin(), members_.end(), incarnation) !=
         members_.end();
}

CoordinatorOrder AllReduceGroup::OrderTo(int64_t incarnation) const {
  CoordinatorOrder order;
  Group* const group = order.mutable_group();
  group->set_member(static_cast<int>(
      std::find(members_.begin(), members_.end(), incarnation) -
      members_.begin()));
  for (const int leaf : leaf_begin_) group->add_leaf_begin(leaf);
  group->set_nccl(nccl_);
  return order;
}

void AllReduceGroup::AddSaved(int64_t incarnation, int64_t version) {
  for (size_t i = 0; i < members_.size(); ++i) {
    if (members_[i] == incarnation) saved_[i] = std::max(saved_[i], version);
  }
}

bool AllReduceGroup::Kept(int64_t version) const {
  return begun() &&
         std::all_of(saved_.begin(), saved_.end(),
                     [version](int64_t saved) { return saved >= version; });
}

bool AllReduceGroup::GiveUp(int64_t version) {
  if (!awaited_.has_value() || awaited_->version() != version) return false;
  awaited_.reset();
  return true;
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
