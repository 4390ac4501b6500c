#include "worker/exchange/stages/slot_releases.h"

namespace tributary {

SlotReleases::SlotReleases(const TransferPlan* plan,
                           ServerStream<StageReply>* stream)
    : plan_(plan), stream_(stream), occupied_(plan->slot_count(), false) {}

bool SlotReleases::Occupy(int route, int slot) {
  if (slot < 0 || slot >= plan_->routes()[route].slots) return false;
  absl::MutexLock lock(&mu_);
  const int number = plan_->SlotNumber(route, slot);
  if (occupied_[number]) return false;
  occupied_[number] = true;
  return true;
}

void SlotReleases::Release(int route, int slot) {
  {
    absl::MutexLock lock(&mu_);
    // Before the sender learns of it, because it may use the slot at once.
    occupied_[plan_->SlotNumber(route, slot)] = false;
    released_.emplace_back(route, slot);
  }
  absl::MutexLock lock(&stream_mu_);
  if (stream_ != nullptr) stream_->Wake();
}

bool SlotReleases::Take(StageReply* reply) {
  absl::MutexLock lock(&mu_);
  if (released_.empty()) return false;
  for (const auto& [route, slot] : released_) {
    StageRelease::Slot* const free = reply->mutable_release()->add_slot();
    free->set_boundary(plan_->routes()[route].boundary);
    free->set_kind(plan_->routes()[route].kind);
    free->set_slot(slot);
  }
  released_.clear();
  return true;
}

void SlotReleases::Detach() {
  absl::MutexLock lock(&stream_mu_);
  stream_ = nullptr;
}

}  // namespace tributary
