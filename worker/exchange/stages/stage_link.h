// The sender's end of the transfers from one worker to another.
#ifndef TRIBUTARY_WORKER_EXCHANGE_STAGES_STAGE_LINK_H_
#define TRIBUTARY_WORKER_EXCHANGE_STAGES_STAGE_LINK_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "worker/exchange/stages/send_slots.h"
#include "worker/exchange/stages/transfer.h"
#include "worker/exchange/stages/transfer_plan.h"

namespace tributary {

// Sends transfers to one receiver, whose TransferInbox they reach in the order
// in which they were sent. Each link is a bounded queue for each route: a
// transfer occupies one of the route's slots until the receiver releases it, or
// drops it as out of date or as a duplicate. So a slow receiver slows its
// senders, and no transfer is lost while both workers live.
//
// A receiver may ask for transfers in an order other than that in which they
// are sent. But if a route has n slots, a receiver that asks for a transfer
// must have released all but n - 1 of the transfers before it on the route;
// otherwise both workers wait for each other.
//
// If the receiver is lost, all calls return Unavailable. The sender cannot know
// which of its transfers have arrived, so the link stays failed: transfers
// continue on a new link, in a new epoch (see BeginEpoch).
//
// Thread-safe. Send and Flush block. The caller must not destroy a link while
// one of its methods runs; Cancel makes them return.
class StageLink {
 public:
  virtual ~StageLink() = default;
  StageLink(const StageLink&) = delete;
  StageLink& operator=(const StageLink&) = delete;

  // Sends `parts`, one after the other, as one transfer. Copies them once,
  // before it returns, so the caller may then change them. Blocks while the
  // route has no free slot, but does not wait until the transfer has arrived.
  // `epoch` is the number of the assignment that names this receiver.
  //
  // Returns Aborted if the epoch or the step of the transfer is over,
  // Unavailable if the receiver is lost, the status of Cancel, the error with
  // which the receiver has refused the sender, or InvalidArgument if the
  // transfer is not in the plan. In all these cases it has sent nothing.
  absl::Status Send(int64_t epoch, const TransferKey& key,
                    const TransferScalars& scalars,
                    absl::Span<const absl::string_view> parts);
  // Blocks until the receiver has released everything that was sent. Returns
  // the errors of Send that end the link.
  absl::Status Flush() { return slots_->AwaitReleased(); }

  // Begins an epoch, if `epoch` is larger than the newest: Send returns Aborted
  // for transfers of earlier epochs, and of steps before `first_step`.
  // Transfers that were sent before are dropped by the receiver.
  void BeginEpoch(int64_t epoch, int64_t first_step) {
    slots_->BeginEpoch(epoch, first_step);
  }
  // Ends all steps up to and including `step`, until the next epoch: Send
  // returns Aborted for transfers that nobody needs any more (see LastStepOf).
  // No effect if an epoch after `epoch` has begun.
  void EndStep(int64_t epoch, int64_t step) { slots_->EndStep(epoch, step); }
  // Makes all calls return `status`, which must be an error.
  void Cancel(const absl::Status& status) { slots_->Fail(status); }
  // Returns the error that has ended the link, or OK.
  absl::Status status() const { return slots_->status(); }

 protected:
  // A transfer that occupies a slot.
  struct Outgoing {
    int route = 0;
    int slot = 0;
    int64_t epoch = 0;
    TransferKey key;
    TransferScalars scalars;
    absl::Span<const absl::string_view> parts;
    int64_t bytes = 0;
  };

  // `plan` must outlive the link and all transfers that it has sent.
  explicit StageLink(const TransferPlan* plan)
      : plan_(plan), slots_(std::make_shared<SendSlots>(plan)) {}

  const TransferPlan& plan() const { return *plan_; }
  // Shared with the transfers in flight, which release their slots.
  const std::shared_ptr<SendSlots>& slots() const { return slots_; }

 private:
  // Copies the bytes and sends them. Must not block for long: the slot bounds
  // what is in flight. May be called from several threads, each with a slot of
  // its own.
  virtual void Transmit(const Outgoing& outgoing) = 0;

  const TransferPlan* const plan_;
  const std::shared_ptr<SendSlots> slots_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_STAGES_STAGE_LINK_H_
