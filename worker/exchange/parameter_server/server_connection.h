// A worker's end of the stream to one server. proto/parameter_server.proto
// defines the protocol.
#ifndef TRIBUTARY_WORKER_EXCHANGE_PARAMETER_SERVER_SERVER_CONNECTION_H_
#define TRIBUTARY_WORKER_EXCHANGE_PARAMETER_SERVER_SERVER_CONNECTION_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/base/buffer_pool.h"
#include "common/optimizer/stated_rates.h"
#include "common/os/shared_memory.h"
#include "common/parameters/arena_layout.h"
#include "common/parameters/chunk_ranges.h"
#include "common/stream/message_stream.h"
#include "common/stream/received_floats.h"
#include "proto/job.pb.h"
#include "proto/parameter_server.pb.h"
#include "worker/exchange/chunk_latency.h"
#include "worker/exchange/exchange_trace.h"
#include "worker/exchange/parameter_server/device_exchange_memory.h"
#include "worker/exchange/parameter_server/gradient_encoder.h"
#include "worker/exchange/parameter_server/received_weights.h"
#include "worker/exchange/parameter_server/server_rows.h"
#include "worker/exchange/step_gradients.h"
#include "worker/state/weights_sink.h"

namespace tributary {

using ExchangeStream = ClientStream<ServerMessage, WorkerMessage>;

class ServerConnection;

// State that the connections of one exchange share.
struct ExchangeParts {
  // `outcomes` initializes the field `answered`. `arena_layout` and
  // `weights_sink` must outlive this object.
  ExchangeParts(const ExchangeSpec& exchange, bool outcomes, int server_count,
                const ArenaLayout* arena_layout, WeightsSink* weights_sink);

  const ArenaLayout* const layout;
  WeightsSink* const sink;
  const int servers;
  // The chunks whose weights the worker receives, and the first chunk to which
  // it contributes.
  ChunkRanges chunks;
  int first_chunk = 0;
  const ExchangeSpec::Transport transport;
  // True if servers only announce versions, and the worker fetches values.
  bool fetches = false;
  // True if servers answer each contribution (gradient sum) with an Outcome;
  // see ExchangeTraits::contributions_answered.
  const bool answered;
  GradientEncoder encoder;
  ReceivedWeights weights;
  std::unique_ptr<ServerRows> rows;  // Null in jobs without tables.
  ChunkLatency latency;
  std::unique_ptr<ExchangeTrace> trace;  // Null if no step is traced.
  // The learning rates that the program states.
  const StatedRates* rates = nullptr;
  // Shared memory for gradients. Null if no server can map it.
  std::shared_ptr<SharedMemory> memory;
  // Maps the memory of the server's GPU. Null if this worker does not use such
  // memory.
  MapDeviceMemory map_device;
  // Logs a line that says whether gradients and weights stay in GPU memory.
  // Called by a thread of gRPC, so it must not block. May be null.
  std::function<void(const std::string&)> log;
  // The memory of the server's GPU. Set once, before the first weights arrive,
  // by the connection to the only server, which then sets `on_device`.
  std::shared_ptr<DeviceExchangeMemory> device;
  std::atomic<bool> on_device{false};
  std::atomic<int64_t> bytes_sent{0};
  std::atomic<int64_t> bytes_received{0};
  // Bytes of the gradients and weights that were exchanged through memory
  // shared with a server, instead of over a stream.
  std::atomic<int64_t> shared_bytes_sent{0};
  std::atomic<int64_t> shared_bytes_received{0};
  std::atomic<bool> finishing{false};

  // Guards `parked`. Held during WeightsSink::BeginWrite, so that a connection
  // that parks a chunk is in `parked` before Retry can be called. Acquired
  // before the sink's lock.
  absl::Mutex parked_mu;
  // The connections that have parked a chunk.
  std::vector<ServerConnection*> parked ABSL_GUARDED_BY(parked_mu);
};

// Sends contributions (gradient sums) to a server, older steps first, and
// within a step the first layers first. Writes the weights that it receives
// from the server to the sink. Between processes that share memory, the stream
// carries only notices of contributions and of weights. Thread-safe.
class ServerConnection final
    : public GradientSender,
      private ClientSession<ServerMessage, WorkerMessage> {
 public:
  // Starts the stream and sends `hello`, with an offer of shared memory if
  // `in_memory` is true. `shard` and `address` are the shard and the address of
  // the server. `parts` must outlive this object.
  ServerConnection(ExchangeParts* parts, int shard, std::string address,
                   bool in_memory, std::unique_ptr<ExchangeStream> stream,
                   Hello hello);
  // Cancels the stream and blocks until it has ended.
  ~ServerConnection() override;

  // Sends the assignment, before the contributions that are pushed later.
  void ShowAssignment(const Assigned& assigned);
  // Sends version 0 of the chunk.
  void PushInitial(int chunk, const Buffer& arena);
  // Requests a version of the chunk. Requires ExchangeParts::fetches.
  void Fetch(int chunk, int64_t version);
  // Sends a message of ServerRows, which belongs to this step.
  void SendRows(const WorkerMessage& message, OutgoingPayload payload,
                int64_t step);
  // Sends the sum. If the sum is in memory that the server shares, sends only a
  // notice.
  void Push(int64_t step, NodeChunk sum) override
      ABSL_LOCKS_EXCLUDED(memory_mu_);
  // Unmaps the memory of the server's GPU, except for arenas that the caller
  // holds. Sums that are pushed later must not be in this memory. The server
  // frees the memory after the end of the stream; CUDA requires that no process
  // maps it by then. Must be called only if this is the only connection.
  void ReleaseDevice() ABSL_LOCKS_EXCLUDED(handling_mu_, memory_mu_);
  void HalfClose() { stream_->HalfClose(); }
  void AwaitDone() { (void)stream_->AwaitDone(); }

  // Delivers the parked chunk to the sink, then resumes reading the stream. A
  // chunk is parked if a task is still reading its destination when the chunk
  // arrives. If the sink parks a chunk again, reading stays paused.
  void Retry() ABSL_LOCKS_EXCLUDED(handling_mu_);

 private:
  // Received weights that cannot be written yet, because a task is still
  // reading their destination.
  struct Parked {
    Weights weights;  // The message without its payload.
    ReceivedFloats floats;
  };

  // Does the work of Push, which also measures it.
  void Send(int64_t step, NodeChunk sum) ABSL_LOCKS_EXCLUDED(memory_mu_);

  bool OnMessage(const ServerMessage& message, ReceivedPayload payload) override
      ABSL_LOCKS_EXCLUDED(handling_mu_);
  void OnGone(const absl::Status& status) override;
  bool TakeMore(WorkerMessage* message) override
      ABSL_LOCKS_EXCLUDED(memory_mu_);

  // Unless noted otherwise, the handlers below return false if they have parked
  // a chunk; returning false pauses reading of the stream.
  bool Handle(const ServerMessage& message, ReceivedPayload payload)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(handling_mu_);
  // Maps the server's weights if both sides offered their memory.
  bool OnWelcome(const Welcome& welcome);
  // Maps the memory of the server's GPU. Returns false, and logs the reason, if
  // gradients and weights pass through the host's memory instead.
  bool MapDevice(const Welcome& welcome);
  // If `mapped` is OK, logs that gradients and weights stay in the memory of
  // the server's GPU, `parts_->device`. Otherwise logs why they do not.
  void LogDevice(const absl::Status& mapped);
  bool OnWeights(const Weights& weights, ReceivedPayload payload)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(handling_mu_);
  bool Write(const Weights& weights, ReceivedFloats floats)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(handling_mu_);
  // Writes values that the worker has fetched, unless they are not needed any
  // more.
  void WriteFetched(const Weights& weights, const ReceivedFloats& floats);
  // Reports to the sink that the weights have been written. Writing began at
  // `begin`.
  void EndWrite(const Weights& weights, absl::Time begin);
  bool OnVersions(const WeightsInMemory& versions)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(handling_mu_);
  // Reports the versions in versions_, which are already in shared memory, to
  // the sink. Returns false if one of them must be parked.
  bool TakeVersions() ABSL_EXCLUSIVE_LOCKS_REQUIRED(handling_mu_);
  bool OnRows(const Rows& rows, const ReceivedPayload& payload);
  bool OnOutcome(const Outcome& outcome) ABSL_LOCKS_EXCLUDED(memory_mu_);

  // Reports the error to the sink and ends the connection. Always returns true,
  // so that a handler can return the result of Fail: true means that no chunk
  // was parked.
  bool Fail(const absl::Status& status);
  absl::Status Check(int chunk, int64_t version) const;
  absl::Status MapWeights(const SharedMemoryOffer& offer);
  WeightsSink::Arrival BeginWrite(const Weights& weights, float** to);
  // Returns the position of `arena`, in floats, within the shared memory, or -1
  // if `arena` is not in this memory.
  int64_t OffsetOf(const Buffer& arena) const;
  // Releases the arenas that hold gradients of this chunk for steps that the
  // received version includes. Has no effect if ExchangeParts::answered is
  // true, because outcomes then release the arenas.
  void Release(const Weights& weights) ABSL_LOCKS_EXCLUDED(memory_mu_);
  std::string Name() const;
  // Returns the bytes of the chunk's float32 values.
  int64_t ChunkBytes(int chunk) const;

  ExchangeParts* const parts_;
  const int shard_;
  const std::string address_;
  const bool in_memory_;
  const std::unique_ptr<ExchangeStream> stream_;
  // True once both sides have agreed to share memory. Gradients in shared
  // memory are then not sent over the stream.
  std::atomic<bool> agreed_{false};

  // Serializes message handling: Retry may run while the handler that has
  // parked a chunk is still returning.
  absl::Mutex handling_mu_;
  std::optional<Parked> parked_ ABSL_GUARDED_BY(handling_mu_);
  // Versions in shared memory that have not been reported to the sink.
  std::deque<Weights> versions_ ABSL_GUARDED_BY(handling_mu_);

  absl::Mutex memory_mu_;
  // Arenas that the server may still read, by (chunk, step).
  std::multimap<std::pair<int, int64_t>, Buffer> held_
      ABSL_GUARDED_BY(memory_mu_);
  // Notices, not yet sent, of contributions in shared memory.
  ContributionsInMemory ready_ ABSL_GUARDED_BY(memory_mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_PARAMETER_SERVER_SERVER_CONNECTION_H_
