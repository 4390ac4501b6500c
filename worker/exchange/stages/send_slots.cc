#include "worker/exchange/stages/send_slots.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/monotonic_clock.h"
#include "common/base/status_macros.h"

namespace tributary {

SendSlots::SendSlots(const TransferPlan* plan)
    : plan_(plan), occupied_(plan->slot_count(), false) {}

absl::StatusOr<int> SendSlots::Acquire(int route, int64_t epoch,
                                       const TransferKey& key) {
  absl::MutexLock lock(&mu_);
  const auto decided = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return FreeSlot(route) >= 0 || !Refusal(epoch, key).ok();
  };
  Await(&mu_, absl::Condition(&decided));
  TRIBUTARY_RETURN_IF_ERROR(Refusal(epoch, key));
  const int slot = FreeSlot(route);
  occupied_[plan_->SlotNumber(route, slot)] = true;
  ++occupied_count_;
  return slot;
}

bool SendSlots::Release(int route, int slot) {
  if (route < 0 || route >= static_cast<int>(plan_->routes().size()) ||
      slot < 0 || slot >= plan_->routes()[route].slots) {
    return false;
  }
  absl::MutexLock lock(&mu_);
  const int number = plan_->SlotNumber(route, slot);
  if (!occupied_[number]) return false;
  occupied_[number] = false;
  --occupied_count_;
  return true;
}

absl::Status SendSlots::AwaitReleased() {
  absl::MutexLock lock(&mu_);
  const auto decided = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return occupied_count_ == 0 || !failed_.ok();
  };
  Await(&mu_, absl::Condition(&decided));
  return failed_;
}

void SendSlots::BeginEpoch(int64_t epoch, int64_t first_step) {
  absl::MutexLock lock(&mu_);
  if (epoch <= epoch_) return;
  epoch_ = epoch;
  ended_step_ = first_step - 1;
}

void SendSlots::EndStep(int64_t epoch, int64_t step) {
  absl::MutexLock lock(&mu_);
  if (epoch < epoch_) return;
  ended_step_ = std::max(ended_step_, step);
}

void SendSlots::Fail(const absl::Status& status) {
  absl::MutexLock lock(&mu_);
  if (failed_.ok()) failed_ = status;
}

absl::Status SendSlots::status() const {
  absl::MutexLock lock(&mu_);
  return failed_;
}

int SendSlots::FreeSlot(int route) const {
  const int begin = plan_->SlotNumber(route, 0);
  for (int slot = 0; slot < plan_->routes()[route].slots; ++slot) {
    if (!occupied_[begin + slot]) return slot;
  }
  return -1;
}

absl::Status SendSlots::Refusal(int64_t epoch, const TransferKey& key) const {
  if (!failed_.ok()) return failed_;
  return CheckIsNeeded(key, epoch, epoch_, ended_step_);
}

}  // namespace tributary
