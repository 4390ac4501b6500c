#include "worker/exchange/parameter_server/parameter_server_exchange.h"

#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/monotonic_clock.h"
#include "common/base/status_macros.h"
#include "common/job/exchange_traits.h"
#include "common/os/shared_memory.h"

namespace tributary {
namespace {

// Returns an error if the job's transport cannot reach the server.
absl::Status CheckTransport(ExchangeSpec::Transport transport, size_t shard,
                            const std::string& address, bool local) {
  if (local || (transport != ExchangeSpec::MEMORY &&
                transport != ExchangeSpec::UNIX_SOCKET)) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("server ", shard, " (", address,
                   ") is on another host, which exchange.transport ",
                   ExchangeSpec::Transport_Name(transport),
                   " cannot reach: use AUTO or WIRE"));
}

Hello MakeHello(const ParameterServerExchange::Options& options,
                const ArenaLayout& layout) {
  Hello hello;
  hello.set_incarnation(options.incarnation);
  hello.set_secret(options.secret);
  hello.set_attempt(options.attempt);
  hello.set_job_id(options.job_id);
  hello.set_signature(layout.signature());
  hello.set_fetches(options.fetches);
  *hello.mutable_chunk_range() = options.chunks.ranges();
  if (options.servers.size() == 1 && options.map_device != nullptr) {
    hello.set_device_arenas(options.device_arenas);
  }
  return hello;
}

}  // namespace

ParameterServerExchange::ParameterServerExchange(const Options& options,
                                                 const ArenaLayout* layout,
                                                 WeightsSink* sink)
    : Exchange(options.job, layout),
      parts_(options.job.exchange(),
             ResolveExchange(options.job).contributions_answered,
             static_cast<int>(options.servers.size()), layout, sink),
      whole_batches_(ResolveExchange(options.job).whole_batches),
      chunk_end_(options.chunk_end == 0 ? layout->chunk_count()
                                        : options.chunk_end) {
  parts_.chunks = options.chunks;
  parts_.fetches = options.fetches;
  parts_.rates = &rates();
  if (options.job.has_sparse()) {
    parts_.rows = std::make_unique<ServerRows>(
        options.job, parts_.servers, parts_.rates, sink,
        [this](int shard, const WorkerMessage& message, OutgoingPayload payload,
               int64_t step) {
          connections_[shard]->SendRows(message, std::move(payload), step);
        });
  }
  if (options.fetches) chunk_arenas_ = std::make_unique<ChunkArenas>(layout);
  parts_.first_chunk = options.chunk_begin;
  if (options.servers.size() == 1) parts_.map_device = options.map_device;
  parts_.log = options.log;
  if (options.trace != nullptr) {
    parts_.trace =
        std::make_unique<ExchangeTrace>(options.trace, options.incarnation);
  }
}

absl::StatusOr<std::unique_ptr<ParameterServerExchange>>
ParameterServerExchange::Create(const Options& options,
                                const ArenaLayout* layout, WeightsSink* sink,
                                const Connector& connect) {
  auto exchange = std::unique_ptr<ParameterServerExchange>(
      new ParameterServerExchange(options, layout, sink));
  sink->SetUnparked([raw = exchange.get()] { raw->RetryParked(); });
  TRIBUTARY_RETURN_IF_ERROR(exchange->Connect(options, connect));
  return exchange;
}

absl::Status ParameterServerExchange::Connect(const Options& options,
                                              const Connector& connect) {
  const std::string host = HostIdentity();
  const ExchangeSpec::Transport transport = parts_.transport;
  const bool wants_memory =
      (transport == ExchangeSpec::AUTO || transport == ExchangeSpec::MEMORY) &&
      !options.job.exchange().has_compression() && !options.fetches;
  std::vector<bool> direct;  // Not over the network, by shard.
  for (size_t shard = 0; shard < options.servers.size(); ++shard) {
    const Server& server = options.servers[shard];
    const bool local = server.local.host() == host;
    TRIBUTARY_RETURN_IF_ERROR(
        CheckTransport(transport, shard, server.address, local));
    direct.push_back(local && transport != ExchangeSpec::WIRE);
    if (direct.back() && wants_memory) MakeMemory(options.shared_arenas);
  }
  MakeArenas(options.pin);
  const absl::Time deadline = MonotonicNow() + options.connect_timeout;
  WeightsSink* const sink = parts_.sink;
  for (size_t shard = 0; shard < options.servers.size(); ++shard) {
    const Server& server = options.servers[shard];
    const std::string& address =
        direct[shard] ? server.local.address() : server.address;
    absl::StatusOr<std::unique_ptr<ExchangeStream>> stream =
        connect(address, deadline, [sink] { return !sink->status().ok(); });
    if (absl::IsFailedPrecondition(stream.status())) return stream.status();
    if (!stream.ok()) {
      TRIBUTARY_RETURN_IF_ERROR(sink->status());
      return absl::UnavailableError(
          absl::StrCat("server ", shard, " (", address,
                       ") cannot be reached: is its port open to this "
                       "machine? (see --advertise)"));
    }
    connections_.push_back(std::make_unique<ServerConnection>(
        &parts_, static_cast<int>(shard), address,
        direct[shard] && parts_.memory != nullptr, *std::move(stream),
        MakeHello(options, *parts_.layout)));
  }
  return absl::OkStatus();
}

void ParameterServerExchange::MakeMemory(int arenas) {
  if (parts_.memory != nullptr) return;
  absl::StatusOr<std::shared_ptr<SharedMemory>> memory =
      SharedMemory::Create(arenas * ArenaBytes());
  // Without shared memory, gradients are sent over the stream.
  if (memory.ok()) parts_.memory = *std::move(memory);
}

int64_t ParameterServerExchange::ArenaBytes() const {
  return RoundUpToPage(parts_.layout->arena_elements() *
                       int64_t{sizeof(float)});
}

void ParameterServerExchange::MakeArenas(const PinMemory& pin) {
  if (chunk_arenas_ != nullptr) {
    arenas_ = std::make_unique<BufferPool>(
        parts_.layout->arena_elements(),
        [arenas = *chunk_arenas_] { return arenas.MakeArena(); });
    return;
  }
  arenas_ = std::make_unique<BufferPool>(
      parts_.layout->arena_elements(),
      [memory = parts_.memory, bytes = ArenaBytes(),
       elements = parts_.layout->arena_elements(), pin,
       next = std::make_shared<std::atomic<int64_t>>(0)] {
        const int64_t begin = (*next)++ * bytes;
        if (memory == nullptr || begin >= memory->bytes()) {
          return PinnedBuffer(AllocateBuffer(elements),
                              elements * sizeof(float), pin);
        }
        return PinnedBuffer(
            Buffer(memory, reinterpret_cast<float*>(memory->data() + begin)),
            bytes, pin);
      });
}

ParameterServerExchange::~ParameterServerExchange() {
  parts_.finishing = true;
  parts_.sink->SetUnparked(nullptr);
  ReleaseDevice();
  connections_.clear();
}

void ParameterServerExchange::ReleaseDevice() {
  // Only a job's only server shares its GPU's memory.
  if (parts_.servers == 1 && !connections_.empty()) {
    connections_[0]->ReleaseDevice();
  }
}

void ParameterServerExchange::ShowAssignment(const Deal& assignment) {
  // Step leases, not assignments, decide what the worker computes.
  if (whole_batches_) return;
  Assigned assigned;
  assigned.set_generation(assignment.generation());
  assigned.set_leaf_begin(assignment.leaf_begin());
  assigned.set_leaf_end(assignment.leaf_end());
  assigned.set_chunk_begin(assignment.chunk_begin());
  assigned.set_chunk_end(assignment.chunk_end());
  assigned.set_secret(assignment.secret());
  for (const auto& connection : connections_) {
    connection->ShowAssignment(assigned);
  }
}

void ParameterServerExchange::PushInitial(Buffer arena) {
  for (int chunk = parts_.first_chunk; chunk < chunk_end_; ++chunk) {
    ConnectionFor(chunk).PushInitial(chunk, arena);
  }
}

void ParameterServerExchange::Finish() {
  parts_.finishing = true;
  ReleaseDevice();
  for (const auto& connection : connections_) connection->HalfClose();
  for (const auto& connection : connections_) connection->AwaitDone();
}

void ParameterServerExchange::FillStatistics(
    ProcessStatistics* statistics) const {
  statistics->set_bytes_sent(parts_.bytes_sent);
  statistics->set_bytes_received(parts_.bytes_received);
  statistics->set_shared_bytes_sent(parts_.shared_bytes_sent);
  statistics->set_shared_bytes_received(parts_.shared_bytes_received);
  *statistics->mutable_chunk_latency() = parts_.latency.counts();
}

void ParameterServerExchange::RetryParked() {
  std::vector<ServerConnection*> parked;
  {
    absl::MutexLock lock(&parts_.parked_mu);
    parked.swap(parts_.parked);
  }
  for (ServerConnection* const connection : parked) connection->Retry();
}

}  // namespace tributary
