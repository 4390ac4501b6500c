#include "worker/exchange/stages/stream_stage_link.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/backoff.h"
#include "common/base/monotonic_clock.h"

namespace tributary {
namespace {

// Returns the send priority. The next stage waits for activations and their
// gradients, but for gradients of weights only at the end of a step.
int64_t WritePriority(StageTransfer::Kind kind) {
  return kind == StageTransfer::WEIGHT_GRADIENT ? 1 : 0;
}

}  // namespace

StreamStageLink::StreamStageLink(const TransferPlan* plan, std::string receiver,
                                 std::unique_ptr<StageStream> stream,
                                 StageHello hello,
                                 std::shared_ptr<SharedMemory> memory)
    : StageLink(plan),
      receiver_(std::move(receiver)),
      memory_(std::move(memory)),
      buffers_(std::make_shared<SlotBuffers>(plan)),
      stream_(std::move(stream)) {
  stream_->Start(this);
  StageMessage message;
  if (memory_ != nullptr) *hello.mutable_memory() = memory_->offer();
  *message.mutable_hello() = std::move(hello);
  stream_->Send(message);
}

StreamStageLink::~StreamStageLink() {
  stream_->Cancel();
  stream_->AwaitDone().IgnoreError();
}

absl::Status StreamStageLink::AwaitWelcome(absl::Time deadline) {
  {
    absl::MutexLock lock(&mu_);
    const auto decided = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return mapped_.has_value() || gone_;
    };
    if (AwaitUntil(&mu_, absl::Condition(&decided), deadline)) return status();
  }
  return absl::DeadlineExceededError(
      absl::StrCat(receiver_, " has not answered"));
}

bool StreamStageLink::in_memory() const {
  absl::MutexLock lock(&mu_);
  return mapped_.value_or(false);
}

void StreamStageLink::Transmit(const Outgoing& outgoing) {
  StageMessage message;
  const bool in_memory = this->in_memory();
  StageTransfer* const transfer =
      in_memory ? message.mutable_in_memory() : message.mutable_transfer();
  transfer->set_epoch(outgoing.epoch);
  transfer->set_step(outgoing.key.step);
  transfer->set_micro_batch(outgoing.key.micro_batch);
  transfer->set_boundary(outgoing.key.boundary);
  transfer->set_kind(outgoing.key.kind);
  transfer->set_slot(outgoing.slot);
  transfer->set_sample_count(outgoing.scalars.sample_count);
  transfer->set_loss_sum(outgoing.scalars.loss_sum);
  transfer->set_bytes(outgoing.bytes);
  if (in_memory) {
    Gather(outgoing.parts,
           memory_->data() + plan().SlotOffset(outgoing.route, outgoing.slot));
    stream_->Send(message);
    return;
  }
  char* const copy = buffers_->At(outgoing.route, outgoing.slot);
  Gather(outgoing.parts, copy);
  SendParts(std::move(message), copy);
}

void StreamStageLink::SendParts(StageMessage message, const char* data) {
  StageTransfer* const transfer = message.mutable_transfer();
  const int64_t priority = WritePriority(transfer->kind());
  int64_t offset = 0;
  do {
    const int64_t bytes = std::min(kPartBytes, transfer->bytes() - offset);
    transfer->set_offset(offset);
    stream_->Send(message, {data + offset, bytes, buffers_}, priority);
    offset += bytes;
  } while (offset < transfer->bytes());
}

bool StreamStageLink::OnMessage(const StageReply& reply, ReceivedPayload) {
  absl::Status handled;
  switch (reply.message_case()) {
    case StageReply::kWelcome: {
      absl::MutexLock lock(&mu_);
      mapped_ = reply.welcome().mapped() && memory_ != nullptr;
      break;
    }
    case StageReply::kRelease:
      handled = OnRelease(reply.release());
      break;
    case StageReply::MESSAGE_NOT_SET:
      break;
  }
  if (!handled.ok()) {
    Cancel(handled);
    stream_->Cancel();
  }
  return true;
}

absl::Status StreamStageLink::OnRelease(const StageRelease& release) {
  for (const StageRelease::Slot& slot : release.slot()) {
    const int route = plan().Find(slot.boundary(), slot.kind());
    if (!slots()->Release(route, slot.slot())) {
      return absl::InvalidArgumentError(
          absl::StrCat(receiver_, " has released slot ", slot.slot(), " of ",
                       StageTransfer::Kind_Name(slot.kind()), " at boundary ",
                       slot.boundary(), ", which was not occupied"));
    }
  }
  return absl::OkStatus();
}

void StreamStageLink::OnGone(const absl::Status& status) {
  const bool lost =
      status.ok() || (IsTransient(status) && !absl::IsAborted(status));
  Cancel(absl::Status(lost ? absl::StatusCode::kUnavailable : status.code(),
                      absl::StrCat(lost ? "lost " : "", receiver_, ": ",
                                   status.ok() ? "it ended the connection"
                                               : status.message())));
  absl::MutexLock lock(&mu_);
  gone_ = true;
}

}  // namespace tributary
