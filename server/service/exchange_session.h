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
#include "common/parameters/chunk_ranges.h"
#include "common/stream/message_stream.h"
#include "common/stream/received_floats.h"
#include "common/update/aggregation/gradient_source.h"
#include "common/update/update_engine.h"
#include "proto/parameter_server.pb.h"
#include "server/membership/member_secrets.h"
#include "server/progress/step_arrivals.h"
#include "server/service/fetch_requests.h"
#include "server/service/row_session.h"
#include "server/service/shown_assignments.h"
#include "server/service/weights_service.h"
#include "server/service/worker_memory.h"

namespace tributary {

// The numbers of payload bytes (gradients and weights) that a server has
// exchanged with its peers. The first two count bytes in streams: those queued
// for sending, and those received. The last two count bytes in shared memory or
// in GPU memory that both processes map; these bytes are counted when they are
// announced.
struct TransportCounters {
  std::atomic<int64_t> bytes_sent{0};
  std::atomic<int64_t> bytes_received{0};
  std::atomic<int64_t> shared_bytes_sent{0};
  std::atomic<int64_t> shared_bytes_received{0};
};

// Passes a worker's contributions to an UpdateEngine, and the engine's versions
// and outcomes to the worker:
//
// 1. The worker sends Hello. The session refuses a different job, model or
//    attempt, and an incarnation that is not the worker's; otherwise it answers
//    with Welcome. If the worker has offered
//    shared memory that the session can map, gradients stay in that memory from
//    then on, Welcome offers the engine's shared memory, and the worker answers
//    with MemoryAnswer. If the worker has mapped the engine's memory, weights
//    stay in that memory. If the engine's GPU has memory to share, Welcome
//    offers the GPU's memory as well; a worker that has mapped the GPU's memory
//    leaves gradients and reads weights there instead.
// 2. The session subscribes to the engine, and sends every version of every
//    chunk that the worker has asked for in Hello: older versions first, and
//    within a version the first layers first. It removes from the queue the
//    versions that the worker no longer needs, which bounds the queue. To a
//    worker that fetches weights, it sends notices instead, and the values of a
//    version whenever the worker requests them (Fetch).
// 3. The worker shows its assignments (Assigned). The session passes its
//    contributions to the engine. If a contribution is outside of its
//    assignments, or the engine returns an error for it, the session drops the
//    worker's other contributions to steps that are not complete, reports the
//    worker, and closes the stream.
class ExchangeSession final
    : public ServerSession<WorkerMessage, ServerMessage>,
      public WeightsSubscriber {
 public:
  // What a server serves to workers, or the status with which it refuses them.
  struct Served {
    int shard = 0;
    // If the engine is null, the call is refused with `refusal`.
    ServedWeights weights;
    // The status for workers while there is no engine.
    absl::Status refusal =
        absl::UnavailableError("this server does not know the model yet");
    // Called when a worker is refused after it has sent a message.
    // `incarnation` is the number that the worker got when it joined, or 0 if
    // the worker has not proved it. May be null.
    std::function<void(int64_t incarnation, const absl::Status&)> on_refusal;
  };

  // All objects that the arguments point to must outlive this object.
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
  // Sends the outcome of a contribution after all weights of the chunk up to
  // `version`, because a worker that must repeat the step needs these weights.
  void OnOutcome(const Outcome& outcome, int64_t version) override;
  int64_t incarnation() const override { return incarnation_; }
  void OnBurstEnd() override { stream_->Wake(); }

 private:
  absl::Status Handle(const WorkerMessage& message, ReceivedPayload payload);
  absl::Status OnHello(const Hello& hello);
  absl::Status OnAssigned(const Assigned& assigned);
  absl::Status OnMemoryAnswer(const MemoryAnswer& answer);
  absl::Status OnFetch(const Fetch& fetch);
  absl::StatusOr<ReceivedFloats> Receive(int chunk, Encoding encoding,
                                         ReceivedPayload payload);
  absl::Status AddInitial(const Initial& initial, ReceivedPayload payload);
  absl::Status AddReceived(const Contribution& c, ReceivedPayload payload);
  absl::Status AddContribution(const Contribution& c,
                               std::shared_ptr<const GradientSource> gradient);
  absl::Status OnContributionsInMemory(const ContributionsInMemory& message);
  // Begins a contribution with what identifies the worker. Returns an error if
  // the node or the chunk is not assigned to it.
  absl::StatusOr<NodeSum> BeginSum(int64_t step, int node, int chunk);

  void Send(int64_t version, int chunk, const EncodedFloats& values,
            bool difference);
  // Queues all weights of a version, and drops queued versions that the worker
  // no longer needs (see UpdateEngine). This bounds the queue of a worker that
  // does not read.
  void SendWhole(int64_t version, int chunk, const EncodedFloats& values);
  // Queues a notice of the version.
  void SendNotice(const WeightsVersion& weights)
      ABSL_LOCKS_EXCLUDED(in_place_mu_);
  // Queues the difference between this version of a chunk's weights and the
  // version before. A worker needs all differences in order, so no single
  // difference may be dropped. If the queued differences of a chunk become as
  // large as the chunk itself, replaces them with the whole weights of the two
  // newest versions, because the worker may compute its next gradient from
  // either of them. This also bounds the queue.
  void SendDifference(const WeightsVersion& weights);
  // Drops the entries of in_place_ that are of `version` or of older versions.
  // This bounds the list if a worker does not read its stream.
  void DropOld(int64_t version) ABSL_EXCLUSIVE_LOCKS_REQUIRED(in_place_mu_);

  const Served served_;
  UpdateEngine* const engine_;
  TransportCounters* const counters_;
  StepArrivals* const arrivals_;
  ServerStream<ServerMessage>* const stream_;
  const int64_t differences_per_whole_;
  const size_t notices_per_message_;
  // The next eight members are accessed only in calls that the stream makes.
  // The engine also reads incarnation_ and requests_, on any thread, but only
  // after the session has subscribed.
  bool welcomed_ = false;
  // Set when the worker has proved it.
  int64_t incarnation_ = 0;
  ChunkRanges chunks_;  // The chunks that the worker receives.
  ShownAssignments assignments_;
  bool subscribed_ = false;
  // Null unless the worker fetches weights.
  std::unique_ptr<FetchRequests> requests_;
  // Null in jobs without tables.
  std::unique_ptr<RowSession> rows_;
  WorkerMemory memory_;

  absl::Mutex in_place_mu_;
  // The (version, chunk) pairs of weights that were not announced to the worker
  // yet.
  std::vector<std::pair<int64_t, int>> in_place_ ABSL_GUARDED_BY(in_place_mu_);
};

// These functions return the header and the payload of a message with a chunk's
// weights. If `difference` is true, the payload is the difference to the
// previous version.
ServerMessage WeightsHeader(int64_t version, int chunk, Encoding encoding,
                            bool difference);
OutgoingPayload PayloadOf(const EncodedFloats& values);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_SERVICE_EXCHANGE_SESSION_H_
