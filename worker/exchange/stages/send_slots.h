// The bounded queues from one sender to one receiver.
#ifndef TRIBUTARY_WORKER_EXCHANGE_STAGES_SEND_SLOTS_H_
#define TRIBUTARY_WORKER_EXCHANGE_STAGES_SEND_SLOTS_H_

#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "worker/exchange/stages/transfer.h"
#include "worker/exchange/stages/transfer_plan.h"

namespace tributary {

// Counts the transfers that a sender has sent and that the receiver has not
// released. Each of them occupies a slot of its route. Thread-safe. Only
// Acquire and AwaitReleased block.
class SendSlots {
 public:
  // `plan` must outlive this object.
  explicit SendSlots(const TransferPlan* plan);

  // Blocks until the route has a free slot, occupies it and returns its number.
  // Returns the lowest free slot, so that few slots are used if the receiver is
  // fast. Returns Aborted if `epoch` or the transfer's step (see LastStepOf) is
  // over, and the status of Fail.
  absl::StatusOr<int> Acquire(int route, int64_t epoch, const TransferKey& key)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Frees a slot. Returns false if it was not occupied, or does not exist.
  bool Release(int route, int slot) ABSL_LOCKS_EXCLUDED(mu_);
  // Blocks until no slot is occupied. Returns the status of Fail.
  absl::Status AwaitReleased() ABSL_LOCKS_EXCLUDED(mu_);

  // See StageLink.
  void BeginEpoch(int64_t epoch, int64_t first_step) ABSL_LOCKS_EXCLUDED(mu_);
  void EndStep(int64_t epoch, int64_t step) ABSL_LOCKS_EXCLUDED(mu_);
  // Acquire and AwaitReleased return `status` from now on. Only the first call
  // has an effect.
  void Fail(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_);
  // Returns the status of Fail, or OK.
  absl::Status status() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  int FreeSlot(int route) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Refusal(int64_t epoch, const TransferKey& key) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const TransferPlan* const plan_;
  mutable absl::Mutex mu_;
  // By TransferPlan::SlotNumber.
  std::vector<bool> occupied_ ABSL_GUARDED_BY(mu_);
  int occupied_count_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t epoch_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t ended_step_ ABSL_GUARDED_BY(mu_) = -1;
  absl::Status failed_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_STAGES_SEND_SLOTS_H_
