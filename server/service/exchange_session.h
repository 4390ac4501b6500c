// A server's end of the stream to one worker. proto/parameter_server.proto
// defines the protocol.
#ifndef TRIBUTARY_SERVER_SERVICE_EXCHANGE_SESSION_H_
#define TRIBUTARY_SERVER_SERVICE_EXCHANGE_SESSION_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/codec/encoding.h"
#include "common/os/shared_memory.h"
#include "common/stream/message_stream.h"
#include "common/stream/received_floats.h"
#include "proto/parameter_server.pb.h"
#include "server/progress/step_arrivals.h"
#include "server/store/aggregation/gradient_source.h"
#include "server/store/parameter_store.h"
#include "server/store/pinned_arenas.h"

namespace tributary {

// Payload bytes of all streams.
struct TransportCounters {
  std::atomic<int64_t> bytes_sent{0};
  std::atomic<int64_t> bytes_received{0};
};

// Passes a worker's contributions to a ParameterStore, and the store's versions
// and outcomes to the worker:
//
// 1. The worker sends Hello. The session refuses another job, model or attempt;
//    otherwise it answers with Welcome. If both offer shared memory, payloads
//    stay there from now on, and MemoryAnswer follows.
// 2. It subscribes to the store. Every version of every chunk goes out, the
//    oldest first, and within a version the first layers first. Versions that
//    the worker no longer needs are dropped from the queue, which bounds it.
// 3. Contributions go to the store. An error of one closes the stream.
class ExchangeSession final
    : public ServerSession<WorkerMessage, ServerMessage>,
      public WeightsSubscriber {
 public:
  // What a server serves to workers.
  struct Served {
    int shard = 0;
    // If null, the call is refused with `refusal`.
    ParameterStore* store = nullptr;
    std::string job_id;
    int64_t attempt = 0;
    // The status for workers while `store` is null.
    absl::Status refusal =
        absl::UnavailableError("this server does not know the model yet");
    // Called when a worker is refused after it has sent a message.
    // `incarnation` is 0 if the worker has not sent it. May be null.
    std::function<void(int64_t incarnation, const absl::Status&)> on_refusal;
  };

  // All arguments must outlive this object.
  ExchangeSession(Served served, TransportCounters* counters,
                  StepArrivals* arrivals, ServerStream<ServerMessage>* stream);

  void OnMessage(const WorkerMessage& message,
                 ReceivedPayload payload) override;
  void OnEnd() override { stream_->Close(absl::OkStatus()); }
  void OnGone() override;
  bool TakeMore(ServerMessage* message) override
      ABSL_LOCKS_EXCLUDED(in_place_mu_);

  void OnWeights(const WeightsVersion& weights) override
      ABSL_LOCKS_EXCLUDED(in_place_mu_);
  // Sends the outcome after all weights up to `version`, because a worker needs
  // them if it must repeat the step.
  void OnOutcome(const Outcome& outcome, int64_t version) override;
  void OnBurstEnd() override { stream_->Wake(); }

 private:
  absl::Status Handle(const WorkerMessage& message, ReceivedPayload payload);
  absl::Status OnHello(const Hello& hello);
  // Maps the worker's shared memory and offers the store's in `*welcome`. If
  // that is not possible, leaves `*welcome` unchanged, and payloads are sent in
  // the stream.
  void AgreeOnMemory(const SharedMemoryOffer& offer, ServerMessage* welcome);
  void Subscribe(bool in_memory);
  absl::StatusOr<ReceivedFloats> Receive(int chunk, Encoding encoding,
                                         ReceivedPayload payload);
  absl::Status AddInitial(const Initial& initial, ReceivedPayload payload);
  absl::Status AddReceived(const Contribution& c, ReceivedPayload payload);
  absl::Status AddContribution(const Contribution& c,
                               std::shared_ptr<const GradientSource> gradient);
  absl::Status OnContributionsInMemory(const ContributionsInMemory& message);

  void Send(int64_t version, int chunk, const EncodedFloats& values,
            bool difference);
  // Queues the difference to the previous version. A worker needs all
  // differences in order, so a single one must not be dropped. If the queued
  // differences are as large as the whole chunk, replaces them with the two
  // whole versions that the worker may need. This also bounds the queue.
  void SendDifference(const WeightsVersion& weights);
  // Drops notices of `version` and older ones. This bounds the list if a worker
  // does not read.
  void DropOld(int64_t version) ABSL_EXCLUSIVE_LOCKS_REQUIRED(in_place_mu_);

  const Served served_;
  ParameterStore* const store_;
  TransportCounters* const counters_;
  StepArrivals* const arrivals_;
  ServerStream<ServerMessage>* const stream_;
  const int64_t differences_per_whole_;
  const size_t notices_per_message_;
  // Accessed only by the stream's calls.
  bool welcomed_ = false;
  int64_t incarnation_ = 0;
  bool subscribed_ = false;
  std::shared_ptr<const MappedMemory> memory_;  // The worker's gradients.
  // The same memory, as arenas that are pinned.
  std::unique_ptr<PinnedArenas> gradients_;

  absl::Mutex in_place_mu_;
  // The (version, chunk) pairs of weights in shared memory that were not
  // announced to the worker yet.
  std::vector<std::pair<int64_t, int>> in_place_ ABSL_GUARDED_BY(in_place_mu_);
};

// Return the header and the payload of a message with a chunk's weights. With
// `difference`, the payload is the difference to the version before.
ServerMessage WeightsHeader(int64_t version, int chunk, Encoding encoding,
                            bool difference);
OutgoingPayload PayloadOf(const EncodedFloats& values);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_SERVICE_EXCHANGE_SESSION_H_
