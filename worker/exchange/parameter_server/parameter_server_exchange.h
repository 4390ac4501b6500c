// The exchange with parameter servers: one gRPC stream to each, over which the
// gradients and weights travel or, between processes that share memory, only
// word of them.
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
    // host:port.
    std::string address;
    // For those on its host.
    LocalAddress local;
  };
  struct Options {
    std::vector<Server> servers;  // By shard.
    ExchangeSpec exchange;        // The job's.
    ExchangeTraits traits;        // Of the job.
    // How many gradient arenas to have in shared memory; those beyond are sent.
    int shared_arenas = 16;
    int64_t incarnation = 0;
    int64_t attempt = 0;
    std::string job_id;  // From Admission.
    absl::Duration connect_timeout = absl::Seconds(60);
    Security security;
    // For gradient arenas.
    PinMemory pin;
  };
  // Connects to every server and says Hello. `layout` and `state` must outlive
  // the exchange. Unavailable, naming shard and address, if a server cannot be
  // reached in time; FailedPrecondition if not by the transport asked for.
  static absl::StatusOr<std::unique_ptr<ParameterServerExchange>> Connect(
      const Options& options, const ArenaLayout* layout, WorkState* state);
  // Cuts connections that Finish has not ended.
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
  // Where the buffer lies in the shared memory, in elements; -1: elsewhere.
  int64_t OffsetOf(const Buffer& arena) const;
  // Lets streams whose chunk had no place try again.
  void RetryParked() ABSL_LOCKS_EXCLUDED(parked_mu_);

  const ArenaLayout* const layout_;
  WorkState* const state_;
  const ExchangeSpec::Transport transport_;
  const bool answered_;  // ExchangeTraits::contributions_answered.
  GradientEncoder encoder_;
  ReceivedWeights weights_;
  // Of the gradients; null without a server that could map it.
  std::shared_ptr<SharedMemory> memory_;
  std::unique_ptr<BufferPool> arenas_;
  std::vector<std::unique_ptr<Stream>> streams_;  // By shard.
  std::atomic<int64_t> bytes_sent_{0};
  std::atomic<int64_t> bytes_received_{0};
  std::atomic<bool> finishing_{false};
  ChunkLatency latency_;

  // Held around BeginWrite, so that a stream is on the list before anybody can
  // call RetryParked for it. Before the state's own lock.
  absl::Mutex parked_mu_;
  std::vector<Stream*> parked_ ABSL_GUARDED_BY(parked_mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_PARAMETER_SERVER_PARAMETER_SERVER_EXCHANGE_H_
