// The sender's end of a stream of transfers. proto/pipeline.proto defines the
// protocol.
#ifndef TRIBUTARY_WORKER_EXCHANGE_STAGES_STREAM_STAGE_LINK_H_
#define TRIBUTARY_WORKER_EXCHANGE_STAGES_STREAM_STAGE_LINK_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/os/shared_memory.h"
#include "common/stream/message_stream.h"
#include "proto/pipeline.pb.h"
#include "worker/exchange/stages/slot_buffers.h"
#include "worker/exchange/stages/stage_link.h"

namespace tributary {

using StageStream = ClientStream<StageReply, StageMessage>;

// A link to a worker in another process. The bytes pass through this worker's
// shared memory, in which the receiver reads them, if both workers can map it;
// otherwise on the stream, in messages of at most kPartBytes. Thread-safe, like
// StageLink.
class StreamStageLink final : public StageLink,
                              private ClientSession<StageReply, StageMessage> {
 public:
  // Largest number of bytes in one message. Larger parts would exceed the limit
  // on messages (Limits::message_bytes); smaller ones cost more time for each
  // byte.
  static constexpr int64_t kPartBytes = 1 << 20;

  // Starts `stream`, and sends `hello`. `receiver` names the receiver in
  // errors. `memory` is at least as large as the plan's; if it is null, bytes
  // are sent on the stream. `plan` must outlive the link.
  StreamStageLink(const TransferPlan* plan, std::string receiver,
                  std::unique_ptr<StageStream> stream, StageHello hello,
                  std::shared_ptr<SharedMemory> memory);
  // Ends the call. What the receiver has not received is lost; see Flush.
  ~StreamStageLink() override;

  // Blocks until the receiver has welcomed this worker, which must happen
  // before Send is called. Returns the error with which the receiver has
  // refused it, Unavailable if the receiver is lost, or DeadlineExceeded at
  // `deadline`, a time of MonotonicNow.
  absl::Status AwaitWelcome(absl::Time deadline) ABSL_LOCKS_EXCLUDED(mu_);
  // Returns true if the bytes pass through shared memory. Valid after
  // AwaitWelcome has returned OK.
  bool in_memory() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  void Transmit(const Outgoing& outgoing) override;
  bool OnMessage(const StageReply& reply, ReceivedPayload payload) override;
  void OnGone(const absl::Status& status) override;

  absl::Status OnRelease(const StageRelease& release);
  // Sends a transfer whose bytes are at `data`, in parts.
  void SendParts(StageMessage message, const char* data);

  const std::string receiver_;
  const std::shared_ptr<SharedMemory> memory_;
  // Copies of transfers until the receiver has released them. Shared with the
  // stream's messages.
  const std::shared_ptr<SlotBuffers> buffers_;
  const std::unique_ptr<StageStream> stream_;

  mutable absl::Mutex mu_;
  // Whether the receiver has mapped memory_, once it has answered.
  std::optional<bool> mapped_ ABSL_GUARDED_BY(mu_);
  bool gone_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_STAGES_STREAM_STAGE_LINK_H_
