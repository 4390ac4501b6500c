#include "worker/exchange/stages/stage_receiver.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace tributary {
namespace {

TransferKey KeyOf(const StageTransfer& transfer) {
  return {transfer.step(), transfer.micro_batch(), transfer.boundary(),
          transfer.kind()};
}

// Returns true if `part` continues the transfer that began with `first`.
bool Continues(const StageTransfer& first, const StageTransfer& part) {
  return KeyOf(first) == KeyOf(part) && first.epoch() == part.epoch() &&
         first.slot() == part.slot() && first.bytes() == part.bytes();
}

}  // namespace

StageReceiver::StageReceiver(const Worker& worker,
                             ServerStream<StageReply>* stream)
    : worker_(worker),
      stream_(stream),
      releases_(worker.plan == nullptr
                    ? nullptr
                    : std::make_shared<SlotReleases>(worker.plan, stream)),
      buffers_(worker.plan == nullptr
                   ? nullptr
                   : std::make_shared<SlotBuffers>(worker.plan)) {
  if (worker.plan != nullptr) return;
  refusal_ = absl::UnavailableError("this worker has no stage yet");
  stream->Close(refusal_);
}

bool StageReceiver::TakeMore(StageReply* reply) {
  return releases_ != nullptr && releases_->Take(reply);
}

void StageReceiver::OnMessage(const StageMessage& message,
                              ReceivedPayload payload) {
  if (!refusal_.ok()) return;
  refusal_ = Handle(message, payload);
  if (!refusal_.ok()) stream_->Close(refusal_);
}

void StageReceiver::OnGone() {
  if (releases_ != nullptr) releases_->Detach();
  if (welcomed_) worker_.inbox->Disconnect(sender_, connection_, refusal_);
}

absl::Status StageReceiver::Handle(const StageMessage& message,
                                   const ReceivedPayload& payload) {
  if (message.has_hello()) return OnHello(message.hello());
  if (!welcomed_) {
    return absl::InvalidArgumentError("the first message is not StageHello");
  }
  switch (message.message_case()) {
    case StageMessage::kTransfer:
      return OnPart(message.transfer(), payload);
    case StageMessage::kInMemory:
      return OnTransferInMemory(message.in_memory());
    default:
      return absl::InvalidArgumentError("an unknown StageMessage");
  }
}

absl::Status StageReceiver::OnHello(const StageHello& hello) {
  if (welcomed_) return absl::InvalidArgumentError("a second StageHello");
  TRIBUTARY_RETURN_IF_ERROR(worker_.admission->Check(hello));
  if (hello.has_memory() &&
      hello.memory().bytes() == worker_.plan->memory_bytes()) {
    auto mapped = MappedMemory::Map(hello.memory());
    if (mapped.ok()) memory_ = *std::move(mapped);
  }
  welcomed_ = true;
  sender_ = hello.sender();
  connection_ = worker_.inbox->Connect(sender_);
  StageReply reply;
  reply.mutable_welcome()->set_mapped(memory_ != nullptr);
  stream_->Send(reply);
  return absl::OkStatus();
}

absl::Status StageReceiver::OnPart(const StageTransfer& part,
                                   const ReceivedPayload& payload) {
  TRIBUTARY_ASSIGN_OR_RETURN(Arriving* const arriving, FindOrBegin(part));
  const int64_t left = part.bytes() - arriving->received;
  if (part.offset() != arriving->received || payload.bytes() > left ||
      (payload.bytes() == 0 && left > 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat(DescribeTransfer(KeyOf(part)), ": a part has ",
                     payload.bytes(), " bytes at ", part.offset(),
                     ", expected 1 to ", left, " at ", arriving->received));
  }
  char* const to = buffers_->At(arriving->route, part.slot());
  payload.Copy(0, payload.bytes(), to + part.offset());
  arriving->received += payload.bytes();
  if (arriving->received < part.bytes()) return absl::OkStatus();
  const Arriving complete = *arriving;
  arriving_.erase(worker_.plan->SlotNumber(complete.route, part.slot()));
  Deliver(complete.header, complete.route, to, buffers_);
  return absl::OkStatus();
}

absl::Status StageReceiver::OnTransferInMemory(const StageTransfer& transfer) {
  if (memory_ == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(DescribeTransfer(KeyOf(transfer)),
                     " is in memory that this worker has not mapped"));
  }
  TRIBUTARY_ASSIGN_OR_RETURN(const int route, Begin(transfer));
  Deliver(transfer, route,
          memory_->data() + worker_.plan->SlotOffset(route, transfer.slot()),
          memory_);
  return absl::OkStatus();
}

absl::StatusOr<StageReceiver::Arriving*> StageReceiver::FindOrBegin(
    const StageTransfer& part) {
  const int route = worker_.plan->Find(part.boundary(), part.kind());
  const bool exists = route >= 0 && part.slot() >= 0 &&
                      part.slot() < worker_.plan->routes()[route].slots;
  if (exists) {
    const auto found =
        arriving_.find(worker_.plan->SlotNumber(route, part.slot()));
    if (found != arriving_.end()) {
      if (Continues(found->second.header, part)) return &found->second;
      return absl::InvalidArgumentError(absl::StrCat(
          DescribeTransfer(KeyOf(part)), " came before the end of ",
          DescribeTransfer(KeyOf(found->second.header)), " in the same slot"));
    }
  }
  TRIBUTARY_RETURN_IF_ERROR(Begin(part).status());
  Arriving& arriving = arriving_[worker_.plan->SlotNumber(route, part.slot())];
  arriving.header = part;
  arriving.route = route;
  return &arriving;
}

absl::StatusOr<int> StageReceiver::Begin(const StageTransfer& transfer) {
  const TransferKey key = KeyOf(transfer);
  TRIBUTARY_ASSIGN_OR_RETURN(const int route,
                             worker_.plan->RouteOf(key, transfer.bytes()));
  if (transfer.sample_count() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(DescribeTransfer(key), ": sample_count is ",
                     transfer.sample_count(), ", expected at least 0"));
  }
  if (!releases_->Occupy(route, transfer.slot())) {
    return absl::ResourceExhaustedError(absl::StrCat(
        DescribeTransfer(key), ": slot ", transfer.slot(),
        " is not free; the route has ", worker_.plan->routes()[route].slots));
  }
  return route;
}

void StageReceiver::Deliver(const StageTransfer& transfer, int route,
                            const char* data,
                            std::shared_ptr<const void> memory) {
  ReceivedTransfer received;
  received.scalars = {transfer.sample_count(), transfer.loss_sum()};
  received.data = data;
  received.bytes = transfer.bytes();
  received.owner = std::shared_ptr<const void>(
      data, [releases = releases_, memory = std::move(memory), route,
             slot = transfer.slot()](const void*) {
        releases->Release(route, slot);
      });
  worker_.inbox->Deliver(sender_, transfer.epoch(), KeyOf(transfer),
                         std::move(received));
}

}  // namespace tributary
