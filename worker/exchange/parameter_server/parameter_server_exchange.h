// Exchange with parameter servers over one stream per server.
#ifndef TRIBUTARY_WORKER_EXCHANGE_PARAMETER_SERVER_PARAMETER_SERVER_EXCHANGE_H_
#define TRIBUTARY_WORKER_EXCHANGE_PARAMETER_SERVER_PARAMETER_SERVER_EXCHANGE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/buffer_pool.h"
#include "common/parameters/arena_layout.h"
#include "common/parameters/chunk_ranges.h"
#include "proto/job.pb.h"
#include "proto/rendezvous.pb.h"
#include "worker/exchange/chunk_memory.h"
#include "worker/exchange/exchange.h"
#include "worker/exchange/parameter_server/chunk_arenas.h"
#include "worker/exchange/parameter_server/device_exchange_memory.h"
#include "worker/exchange/parameter_server/server_connection.h"
#include "worker/state/weights_sink.h"

namespace tributary {

// The exchange of a worker with parameter servers: sends gradient sums and
// receives weights over one stream per server. See Exchange for thread safety
// and errors.
class ParameterServerExchange final : public Exchange, private ChunkMemory {
 public:
  struct Server {
    // Address of the server, as host:port.
    std::string address;
    // Address at which workers on the server's host reach it.
    LocalAddress local;
  };
  // Connects to the server at `address`. Calls `stop` repeatedly, on the
  // calling thread. Returns DeadlineExceeded if `deadline` passes or `stop`
  // returns true before the server is reached, and FailedPrecondition if the
  // security settings are incompatible.
  using Connector =
      std::function<absl::StatusOr<std::unique_ptr<ExchangeStream>>(
          const std::string& address, absl::Time deadline,
          const std::function<bool()>& stop)>;
  struct Options {
    std::vector<Server> servers;  // Indexed by shard.
    JobSpec job;                  // The resolved job.
    // Number of gradient arenas (buffers for the gradients of the whole model)
    // to place in shared memory. Gradients in all further arenas are sent over
    // the stream.
    int shared_arenas = 16;
    int64_t incarnation = 0;
    std::string secret;  // Value of Admission.secret.
    int64_t attempt = 0;
    std::string job_id;  // Value of Admission.job_id.
    // The chunks whose weights the worker receives.
    ChunkRanges chunks;
    // The chunks to which the worker contributes, and whose initial values it
    // sends: [chunk_begin, chunk_end), or all if chunk_end is 0.
    int chunk_begin = 0;
    int chunk_end = 0;
    // True: the worker fetches weights, and frees the memory of gradients,
    // chunk by chunk (see ChunkMemory). All payloads then pass through the
    // stream.
    bool fetches = false;
    absl::Duration connect_timeout = absl::Seconds(60);
    // Pins the memory of gradient arenas, so that GPUs copy to it directly. If
    // null, the memory is not pinned.
    PinMemory pin;
    // Maps the memory of the server's GPU for this worker's GPU. If null, or if
    // there are several servers, gradients and weights pass through the host's
    // memory.
    MapDeviceMemory map_device;
    // Number of gradient arenas to request in the memory of the server's GPU.
    // Sums for which there is no arena pass through the host's memory.
    int device_arenas = 0;
    // Records the traced steps. Null if no step is traced. Must outlive the
    // exchange.
    TraceRecorder* trace = nullptr;
    // Logs whether GPU memory is used. May be null. Called by a thread of gRPC,
    // so it must not block.
    std::function<void(const std::string&)> log;
  };
  // Connects to every server and sends it a Hello message. `layout` and `sink`
  // must outlive the exchange. Returns Unavailable, naming shard and address,
  // if a server cannot be reached in time; FailedPrecondition if the requested
  // transport cannot reach a server or the security settings are incompatible;
  // and sink->status() if that is an error.
  static absl::StatusOr<std::unique_ptr<ParameterServerExchange>> Create(
      const Options& options, const ArenaLayout* layout, WeightsSink* sink,
      const Connector& connect);
  // Cancels the connections that Finish has not closed.
  ~ParameterServerExchange() override;

  Buffer TakeArena() override { return arenas_->Take(); }
  Buffer TakeDeviceArena() override {
    return parts_.on_device ? parts_.device->Take() : nullptr;
  }
  MemoryView DeviceWeights(int64_t version) const override {
    return parts_.on_device ? parts_.device->Weights(version) : MemoryView();
  }
  void ShowAssignment(const Deal& assignment) override;
  void PushInitial(Buffer arena) override;
  ChunkMemory* chunk_memory() override {
    return chunk_arenas_ == nullptr ? nullptr : this;
  }
  RowExchange* rows() override { return parts_.rows.get(); }
  GradientSender* SenderOf(int chunk) override { return &ConnectionFor(chunk); }
  void Finish() override;
  void FillStatistics(ProcessStatistics* statistics) const override;

 private:
  ParameterServerExchange(const Options& options, const ArenaLayout* layout,
                          WeightsSink* sink);
  absl::Status Connect(const Options& options, const Connector& connect);
  // The methods of ChunkMemory.
  void Fetch(int chunk, int64_t version) override {
    ConnectionFor(chunk).Fetch(chunk, version);
  }
  Buffer ChunkOf(const Buffer& arena, int chunk) override {
    return chunk_arenas_->ChunkOf(arena, chunk);
  }
  void PushInitialChunk(int chunk, Buffer arena) override {
    ConnectionFor(chunk).PushInitial(chunk, arena);
  }
  bool AwaitReleased(int64_t most, absl::Duration patience) override {
    return chunk_arenas_->AwaitReleased(most, patience);
  }
  // Creates shared memory for `arenas` gradient arenas, unless it already
  // exists. If this fails, gradients are sent over the streams.
  void MakeMemory(int arenas);
  void MakeArenas(const PinMemory& pin);
  int64_t ArenaBytes() const;
  ServerConnection& ConnectionFor(int chunk) {
    return *connections_[ArenaLayout::ShardOf(chunk, parts_.servers)];
  }
  // Unmaps the memory of the server's GPU.
  void ReleaseDevice();
  // Calls Retry on the connections that have parked a chunk, that is, received
  // weights that could not be written yet.
  void RetryParked();

  ExchangeParts parts_;
  const bool whole_batches_;  // See ExchangeTraits.
  const int chunk_end_;       // See Options.
  // Null unless Options::fetches.
  std::unique_ptr<ChunkArenas> chunk_arenas_;
  std::unique_ptr<BufferPool> arenas_;
  // Indexed by shard.
  std::vector<std::unique_ptr<ServerConnection>> connections_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_PARAMETER_SERVER_PARAMETER_SERVER_EXCHANGE_H_
