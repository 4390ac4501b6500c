// Exchange with parameter servers over one gRPC stream per server. Streams
// carry gradients and weights, or only notices of them between processes that
// share memory.
#ifndef TRIBUTARY_WORKER_EXCHANGE_PARAMETER_SERVER_PARAMETER_SERVER_EXCHANGE_H_
#define TRIBUTARY_WORKER_EXCHANGE_PARAMETER_SERVER_PARAMETER_SERVER_EXCHANGE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/buffer_pool.h"
#include "common/job/exchange_traits.h"
#include "common/os/shared_memory.h"
#include "common/parameters/parameter_table.h"
#include "common/transport/security.h"
#include "proto/job.pb.h"
#include "proto/rendezvous.pb.h"
#include "worker/exchange/chunk_latency.h"
#include "worker/exchange/exchange.h"
#include "worker/exchange/parameter_server/gradient_encoder.h"
#include "worker/exchange/parameter_server/received_weights.h"
#include "worker/state/work_state.h"

namespace tributary {

class ParameterServerExchange final : public Exchange {
 public:
  struct Server {
    // Address as host:port.
    std::string address;
    // Address for workers on the same host.
    LocalAddress local;
  };
  struct Options {
    std::vector<Server> servers;  // By shard.
    ExchangeSpec exchange;        // The job's.
    ExchangeTraits traits;        // Of the job.
    // Number of gradient arenas in shared memory. Gradients in other arenas are
    // sent on the stream.
    int shared_arenas = 16;
    int64_t incarnation = 0;
    int64_t attempt = 0;
    std::string job_id;  // From Admission.
    absl::Duration connect_timeout = absl::Seconds(60);
    Security security;
    // Pins gradient arenas.
    PinMemory pin;
  };
  // Connects to every server and sends Hello. `layout` and `state` must outlive
  // the exchange. Returns Unavailable, naming shard and address, if a server
  // cannot be reached in time, and FailedPrecondition if the requested
  // transport cannot reach it.
  static absl::StatusOr<std::unique_ptr<ParameterServerExchange>> Connect(
      const Options& options, const ArenaLayout* layout, WorkState* state);
  // Cancels the connections that Finish has not closed.
  ~ParameterServerExchange() override;

  Buffer TakeArena() override { return arenas_->Take(); }
  void PushInitial(Buffer arena) override;
  void Push(int64_t step, NodeChunk sum) override;
  void Finish() override;
  int64_t bytes_sent() const override { return bytes_sent_; }
  int64_t bytes_received() const override { return bytes_received_; }
  DurationCounts chunk_latency() const override { return latency_.counts(); }

 private:
  class Stream;

  ParameterServerExchange(const Options& options, const ArenaLayout* layout,
                          WorkState* state);
  void MakeMemory(int arenas);
  void MakeArenas(const PinMemory& pin);
  int64_t ArenaBytes() const;
  // Returns the offset of the buffer in shared memory, in elements, or -1 if it
  // lies elsewhere.
  int64_t OffsetOf(const Buffer& arena) const;
  // Retries the streams whose chunk was parked.
  void RetryParked() ABSL_LOCKS_EXCLUDED(parked_mu_);

  const ArenaLayout* const layout_;
  WorkState* const state_;
  const ExchangeSpec::Transport transport_;
  const bool answered_;  // ExchangeTraits::contributions_answered.
  GradientEncoder encoder_;
  ReceivedWeights weights_;
  // Shared memory for gradients. Null if no server can map it.
  std::shared_ptr<SharedMemory> memory_;
  std::unique_ptr<BufferPool> arenas_;
  std::vector<std::unique_ptr<Stream>> streams_;  // By shard.
  std::atomic<int64_t> bytes_sent_{0};
  std::atomic<int64_t> bytes_received_{0};
  std::atomic<bool> finishing_{false};
  ChunkLatency latency_;

  // Held during BeginWrite, so that a stream is in parked_ before RetryParked
  // can run for it. Acquired before the state's lock.
  absl::Mutex parked_mu_;
  std::vector<Stream*> parked_ ABSL_GUARDED_BY(parked_mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_PARAMETER_SERVER_PARAMETER_SERVER_EXCHANGE_H_
