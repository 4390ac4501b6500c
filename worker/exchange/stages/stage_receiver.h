// The receiver's end of a stream of transfers. proto/pipeline.proto defines the
// protocol.
#ifndef TRIBUTARY_WORKER_EXCHANGE_STAGES_STAGE_RECEIVER_H_
#define TRIBUTARY_WORKER_EXCHANGE_STAGES_STAGE_RECEIVER_H_

#include <cstdint>
#include <map>
#include <memory>

#include "absl/status/status.h"
#include "common/os/shared_memory.h"
#include "common/stream/message_stream.h"
#include "common/stream/received_payload.h"
#include "proto/pipeline.pb.h"
#include "worker/exchange/stages/slot_buffers.h"
#include "worker/exchange/stages/slot_releases.h"
#include "worker/exchange/stages/stage_admission.h"
#include "worker/exchange/stages/transfer_inbox.h"
#include "worker/exchange/stages/transfer_plan.h"

namespace tributary {

// Delivers the transfers of one sender to an inbox:
//
// 1. The sender sends StageHello. If the StageAdmission refuses it, the session
//    closes the stream; otherwise it answers with StageWelcome. If the sender
//    offers its memory, the session maps it.
// 2. The session checks each transfer against the plan: its route, its size and
//    its slot, which must be free. So a sender can make this worker hold no
//    more than the plan allows. Bytes in shared memory stay there; bytes on the
//    stream are copied to a buffer of the slot.
// 3. When the owner of a transfer is released, the session tells the sender.
//
// After a message that no correct sender sends, closes the stream and ignores
// the rest. Does not block.
class StageReceiver final : public ServerSession<StageMessage, StageReply> {
 public:
  // The worker that receives. All must outlive the session; `plan` must also
  // outlive its transfers. If they are null, the worker cannot receive yet.
  struct Worker {
    const TransferPlan* plan = nullptr;
    TransferInbox* inbox = nullptr;
    const StageAdmission* admission = nullptr;
  };

  // `stream` must live until OnGone has returned. If `worker` cannot receive
  // yet, closes the stream with Unavailable.
  StageReceiver(const Worker& worker, ServerStream<StageReply>* stream);

  void OnMessage(const StageMessage& message, ReceivedPayload payload) override;
  void OnEnd() override { stream_->Close(absl::OkStatus()); }
  void OnGone() override;
  bool TakeMore(StageReply* reply) override;

 private:
  // A transfer whose parts are arriving.
  struct Arriving {
    StageTransfer header;  // Of its first part.
    int route = 0;
    int64_t received = 0;  // Bytes.
  };

  absl::Status Handle(const StageMessage& message,
                      const ReceivedPayload& payload);
  absl::Status OnHello(const StageHello& hello);
  absl::Status OnPart(const StageTransfer& part,
                      const ReceivedPayload& payload);
  absl::Status OnTransferInMemory(const StageTransfer& transfer);
  // Returns the transfer that `part` continues or begins.
  absl::StatusOr<Arriving*> FindOrBegin(const StageTransfer& part);
  // Checks a new transfer, occupies its slot, and returns its route.
  absl::StatusOr<int> Begin(const StageTransfer& transfer);
  // Delivers a complete transfer, whose bytes are at `data`. `memory` owns
  // them.
  void Deliver(const StageTransfer& transfer, int route, const char* data,
               std::shared_ptr<const void> memory);

  const Worker worker_;
  ServerStream<StageReply>* const stream_;
  // These two are shared with the transfers. Null if the worker cannot receive.
  const std::shared_ptr<SlotReleases> releases_;
  const std::shared_ptr<SlotBuffers> buffers_;
  // The members below are accessed only in calls that the stream makes.
  absl::Status refusal_;  // Not OK after the stream was closed with an error.
  bool welcomed_ = false;
  int64_t sender_ = 0;
  int64_t connection_ = 0;  // TransferInbox::Connect
  // The sender's memory; null if it sends all bytes on the stream.
  std::shared_ptr<const MappedMemory> memory_;
  // By TransferPlan::SlotNumber.
  std::map<int, Arriving> arriving_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_STAGES_STAGE_RECEIVER_H_
