#include "worker/exchange/parameter_server/server_connection.h"

#include <functional>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/failpoint.h"
#include "common/base/monotonic_clock.h"
#include "common/base/status_macros.h"
#include "common/codec/encoding.h"
#include "common/stream/notices.h"

namespace tributary {
namespace {

// Returns the send priority: older steps first, and within a step the first
// layers first, because the next forward pass starts with them.
int64_t WritePriority(int64_t step, int chunk) {
  return (step + 1) << 24 | chunk;
}

}  // namespace

ExchangeParts::ExchangeParts(const ExchangeSpec& exchange, bool outcomes,
                             int server_count, const ArenaLayout* arena_layout,
                             WeightsSink* weights_sink)
    : layout(arena_layout),
      sink(weights_sink),
      servers(server_count),
      transport(exchange.transport()),
      answered(outcomes),
      encoder(exchange, layout),
      weights(exchange, layout),
      latency(layout->chunk_count()) {}

ServerConnection::ServerConnection(ExchangeParts* parts, int shard,
                                   std::string address, bool in_memory,
                                   std::unique_ptr<ExchangeStream> stream,
                                   Hello hello)
    : parts_(parts),
      shard_(shard),
      address_(std::move(address)),
      in_memory_(in_memory),
      stream_(std::move(stream)) {
  stream_->Start(this);
  WorkerMessage message;
  if (in_memory_) *hello.mutable_memory() = parts_->memory->offer();
  *message.mutable_hello() = std::move(hello);
  stream_->Send(message, /*priority=*/-1);
}

ServerConnection::~ServerConnection() {
  stream_->Cancel();
  AwaitDone();
}

void ServerConnection::ReleaseDevice() {
  {
    // From now on a welcome maps nothing.
    absl::MutexLock lock(&handling_mu_);
    parts_->map_device = nullptr;
    parts_->on_device = false;
    parts_->device = nullptr;
  }
  std::multimap<std::pair<int, int64_t>, Buffer> held;
  absl::MutexLock lock(&memory_mu_);
  held.swap(held_);
}

void ServerConnection::Retry() {
  {
    absl::MutexLock lock(&handling_mu_);
    if (parked_.has_value()) {
      Parked parked = *std::exchange(parked_, std::nullopt);
      if (!Write(parked.weights, std::move(parked.floats))) return;
    } else if (!TakeVersions()) {
      return;
    }
  }
  stream_->Resume();
}

void ServerConnection::ShowAssignment(const Assigned& assigned) {
  WorkerMessage message;
  *message.mutable_assigned() = assigned;
  stream_->Send(message, /*priority=*/-1);
}

void ServerConnection::PushInitial(int chunk, const Buffer& arena) {
  WorkerMessage message;
  message.mutable_initial()->set_chunk(chunk);
  const int64_t bytes = ChunkBytes(chunk);
  parts_->bytes_sent += bytes;
  stream_->Send(message,
                {arena.get() + parts_->layout->ChunkBegin(chunk), bytes, arena},
                /*priority=*/0);
}

void ServerConnection::Fetch(int chunk, int64_t version) {
  WorkerMessage message;
  message.mutable_fetch()->set_version(version);
  message.mutable_fetch()->add_chunk(chunk);
  stream_->Send(message, /*priority=*/-1);
}

void ServerConnection::SendRows(const WorkerMessage& message,
                                OutgoingPayload payload, int64_t step) {
  parts_->bytes_sent += payload.bytes;
  // With the first chunks, and behind everything of earlier steps.
  stream_->Send(message, std::move(payload), WritePriority(step, /*chunk=*/0));
}

void ServerConnection::Push(int64_t step, NodeChunk sum) {
  absl::Status status = Failpoint("W7");
  if (status.ok() && sum.chunk == parts_->layout->chunk_count() / 2) {
    status = Failpoint("W8");
  }
  if (!status.ok()) parts_->sink->Fail(status);
  const absl::Time begin = MonotonicNow();
  const int chunk = sum.chunk;
  const int node = sum.node;
  parts_->latency.Pushed(step, chunk, begin);
  Send(step, std::move(sum));
  if (parts_->trace != nullptr) parts_->trace->Pushed(step, chunk, node, begin);
}

void ServerConnection::Send(int64_t step, NodeChunk sum) {
  Contribution contribution;
  contribution.set_step(step);
  contribution.set_chunk(sum.chunk);
  contribution.set_node(sum.node);
  contribution.set_weight(sum.sample_count);
  const std::optional<double> loss_sum = sum.loss_sum.value();
  if (sum.chunk == 0 && loss_sum.has_value()) {
    contribution.set_loss_sum(*loss_sum);
  }
  contribution.set_base_version(parts_->sink->BaseVersion(sum.chunk));
  contribution.set_gradient_norm(sum.gradient_norm);
  if (const std::optional<double> rate = parts_->rates->Of(step)) {
    contribution.set_learning_rate(*rate);
  }
  const int64_t begin = parts_->layout->ChunkBegin(sum.chunk);
  int64_t offset = OffsetOf(sum.arena);
  if (parts_->on_device && offset < 0) {
    offset = parts_->device->OffsetOf(sum.arena);
    contribution.set_on_device(offset >= 0);
  }
  if (agreed_ && offset >= 0) {
    contribution.set_offset(offset + begin);
    parts_->shared_bytes_sent += ChunkBytes(sum.chunk);
    const int most = static_cast<int>(
        NoticesPerMessage(parts_->layout->chunk_count() / parts_->servers,
                          parts_->layout->chunk_elements()));
    // Backward ends with the first chunk.
    const bool more = sum.chunk >= parts_->first_chunk + parts_->servers;
    {
      absl::MutexLock lock(&memory_mu_);
      held_.insert({{sum.chunk, step}, std::move(sum.arena)});
      *ready_.add_contribution() = std::move(contribution);
      if (more && ready_.contribution_size() < most) return;
    }
    stream_->Wake();
    return;
  }
  EncodedFloats payload = parts_->encoder.Encode(sum);
  contribution.set_encoding(payload.encoding);
  parts_->bytes_sent += payload.bytes;
  WorkerMessage message;
  *message.mutable_contribution() = std::move(contribution);
  stream_->Send(message,
                {payload.data, payload.bytes, std::move(payload.owner)},
                WritePriority(step, sum.chunk));
}

int64_t ServerConnection::ChunkBytes(int chunk) const {
  return PayloadBytes(FLOAT32, parts_->layout->ChunkSize(chunk));
}

std::string ServerConnection::Name() const {
  return absl::StrCat("server ", shard_, " (", address_, ")");
}

bool ServerConnection::OnMessage(const ServerMessage& message,
                                 ReceivedPayload payload) {
  absl::MutexLock lock(&handling_mu_);
  return Handle(message, std::move(payload));
}

bool ServerConnection::Handle(const ServerMessage& message,
                              ReceivedPayload payload) {
  parts_->bytes_received += payload.bytes();
  switch (message.message_case()) {
    case ServerMessage::kWelcome:
      return OnWelcome(message.welcome());
    case ServerMessage::kInMemory:
      return OnVersions(message.in_memory());
    case ServerMessage::kOutcome:
      return OnOutcome(message.outcome());
    case ServerMessage::kWeights:
      return OnWeights(message.weights(), std::move(payload));
    case ServerMessage::kRows:
      return OnRows(message.rows(), payload);
    case ServerMessage::kTablesComplete:
      parts_->sink->SetTablesComplete(shard_,
                                      message.tables_complete().version());
      return true;
    case ServerMessage::MESSAGE_NOT_SET:
      break;
  }
  return true;
}

bool ServerConnection::OnWeights(const Weights& weights,
                                 ReceivedPayload payload) {
  absl::Status status = Check(weights.chunk(), weights.version());
  if (status.ok()) status = Failpoint("W4");
  if (!status.ok()) return Fail(status);
  absl::StatusOr<ReceivedFloats> floats =
      parts_->weights.Take(weights, std::move(payload));
  if (!floats.ok()) return Fail(floats.status());
  if (!parts_->fetches) return Write(weights, *std::move(floats));
  WriteFetched(weights, *floats);
  return true;
}

bool ServerConnection::OnRows(const Rows& rows,
                              const ReceivedPayload& payload) {
  const absl::Status status =
      parts_->rows == nullptr
          ? absl::InvalidArgumentError("sent rows in a job without tables")
          : parts_->rows->OnRows(shard_, rows, payload);
  return status.ok() || Fail(status);
}

void ServerConnection::WriteFetched(const Weights& weights,
                                    const ReceivedFloats& floats) {
  float* to = nullptr;
  if (!parts_->sink->BeginFetched(weights.chunk(), weights.version(), &to)) {
    return;
  }
  parts_->weights.Write(weights.chunk(), floats, to);
  parts_->sink->EndFetched(weights.chunk(), weights.version());
}

bool ServerConnection::Write(const Weights& weights, ReceivedFloats floats) {
  float* to = nullptr;
  const WeightsSink::Arrival arrival = BeginWrite(weights, &to);
  if (arrival == WeightsSink::Arrival::kPark) {
    parked_ = Parked{weights, std::move(floats)};
    return false;
  }
  if (arrival == WeightsSink::Arrival::kWrite) {
    const absl::Time begin = MonotonicNow();
    parts_->weights.Write(weights.chunk(), floats, to);
    EndWrite(weights, begin);
  }
  if (agreed_) Release(weights);
  const absl::Status status = Failpoint("W10");
  return status.ok() || Fail(status);
}

void ServerConnection::EndWrite(const Weights& weights, absl::Time begin) {
  // Before the sink wakes the compute threads.
  if (parts_->trace != nullptr) {
    parts_->trace->Arrived(weights.version(), weights.chunk(), begin);
  }
  parts_->sink->EndWrite(weights.chunk(), weights.version());
  parts_->latency.Arrived(weights.chunk(), MonotonicNow());
}

bool ServerConnection::Fail(const absl::Status& status) {
  parts_->sink->Fail(absl::Status(
      status.code(), absl::StrCat(Name(), ": ", status.message())));
  stream_->Cancel();
  return true;
}

absl::Status ServerConnection::Check(int chunk, int64_t version) const {
  if (chunk >= 0 && chunk < parts_->layout->chunk_count() &&
      parts_->chunks.Contains(chunk) &&
      ArenaLayout::ShardOf(chunk, parts_->servers) == shard_ && version >= 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("sent chunk ", chunk, ", version ", version,
                   ", which is not one of its chunks"));
}

WeightsSink::Arrival ServerConnection::BeginWrite(const Weights& weights,
                                                  float** to) {
  absl::MutexLock lock(&parts_->parked_mu);
  const WeightsSink::Arrival arrival =
      parts_->sink->BeginWrite(weights.chunk(), weights.version(), to);
  if (arrival == WeightsSink::Arrival::kPark) parts_->parked.push_back(this);
  return arrival;
}

bool ServerConnection::OnWelcome(const Welcome& welcome) {
  absl::Status status;
  if (!welcome.has_memory()) {
    status = absl::FailedPreconditionError(
        "shared memory: the server declined the offer");
    if (parts_->map_device != nullptr) {
      LogDevice(in_memory_ ? status
                           : absl::FailedPreconditionError(
                                 "this worker shares no memory with the "
                                 "server"));
    }
  } else if (!in_memory_) {
    return Fail(absl::FailedPreconditionError(
        "offered shared memory that this worker did not request"));
  } else {
    agreed_ = true;
    const bool offered = welcome.memory().bytes() > 0;
    if (offered) status = MapWeights(welcome.memory());
    WorkerMessage answer;
    answer.mutable_memory_answer()->set_mapped(offered && status.ok());
    if (parts_->map_device != nullptr) {
      answer.mutable_memory_answer()->set_device_mapped(MapDevice(welcome));
    }
    stream_->Send(answer);
  }
  if (!status.ok() && parts_->transport == ExchangeSpec::MEMORY) {
    return Fail(absl::FailedPreconditionError(absl::StrCat(
        status.message(),
        "; set exchange.transport to AUTO, which falls back to another "
        "transport")));
  }
  return true;
}

void ServerConnection::LogDevice(const absl::Status& mapped) {
  if (parts_->log == nullptr) return;
  if (!mapped.ok()) {
    parts_->log(
        absl::StrCat("gradients and weights pass through the host's memory: ",
                     mapped.message()));
    return;
  }
  parts_->log(absl::StrCat(
      "gradients and weights stay in the memory of the server's GPU",
      parts_->device->Weights(0).place == MemoryPlace::kDevice
          ? ""
          : "; each step copies the weights to the worker's GPU, which is a "
            "different one"));
}

bool ServerConnection::MapDevice(const Welcome& welcome) {
  const int64_t elements = parts_->layout->arena_elements();
  absl::StatusOr<std::shared_ptr<DeviceExchangeMemory>> mapped =
      DeviceExchangeMemory::Map(welcome, elements, parts_->map_device);
  const absl::Status status = mapped.status();
  if (status.ok()) {
    parts_->device = *std::move(mapped);
    parts_->on_device = true;
  }
  LogDevice(status);
  return status.ok();
}

absl::Status ServerConnection::MapWeights(const SharedMemoryOffer& offer) {
  TRIBUTARY_ASSIGN_OR_RETURN(const std::shared_ptr<const MappedMemory> memory,
                             MappedMemory::Map(offer));
  return parts_->sink->MapChunks(*memory, shard_, parts_->servers);
}

bool ServerConnection::OnVersions(const WeightsInMemory& versions) {
  for (const Weights& weights : versions.weights()) {
    absl::Status status = Check(weights.chunk(), weights.version());
    if (status.ok()) status = Failpoint("W4");
    if (!status.ok()) return Fail(status);
    // The server has read the gradients, even if the weights are dropped here.
    Release(weights);
    if (agreed_) parts_->shared_bytes_received += ChunkBytes(weights.chunk());
    versions_.push_back(weights);
  }
  return TakeVersions();
}

bool ServerConnection::TakeVersions() {
  while (!versions_.empty()) {
    const Weights& weights = versions_.front();
    float* unused = nullptr;
    const WeightsSink::Arrival arrival = BeginWrite(weights, &unused);
    if (arrival == WeightsSink::Arrival::kPark) return false;
    if (arrival == WeightsSink::Arrival::kWrite) {
      EndWrite(weights, MonotonicNow());
    }
    versions_.pop_front();
    const absl::Status status = Failpoint("W10");
    if (!status.ok()) return Fail(status);
  }
  return true;
}

bool ServerConnection::OnOutcome(const Outcome& outcome) {
  const absl::Status status = Check(outcome.chunk(), outcome.step());
  if (!status.ok()) return Fail(status);
  {
    absl::MutexLock lock(&memory_mu_);
    held_.erase({outcome.chunk(), outcome.step()});
  }
  parts_->sink->SetOutcome(outcome);
  return true;
}

void ServerConnection::Release(const Weights& weights) {
  if (parts_->answered) return;
  absl::MutexLock lock(&memory_mu_);
  held_.erase(held_.lower_bound({weights.chunk(), 0}),
              held_.lower_bound({weights.chunk(), weights.version()}));
}

int64_t ServerConnection::OffsetOf(const Buffer& arena) const {
  const SharedMemory* const memory = parts_->memory.get();
  if (memory == nullptr) return -1;
  const char* const at = reinterpret_cast<const char*>(arena.get());
  const std::less<const char*> before;
  if (before(at, memory->data()) ||
      !before(at, memory->data() + memory->bytes())) {
    return -1;
  }
  return (at - memory->data()) / int64_t{sizeof(float)};
}

bool ServerConnection::TakeMore(WorkerMessage* message) {
  absl::MutexLock lock(&memory_mu_);
  if (ready_.contribution().empty()) return false;
  message->mutable_in_memory()->Swap(&ready_);
  return true;
}

void ServerConnection::OnGone(const absl::Status& status) {
  if (parts_->finishing) return;
  parts_->sink->Fail(
      absl::Status(status.ok() ? absl::StatusCode::kUnavailable : status.code(),
                   absl::StrCat("lost ", Name(), ": ",
                                status.ok() ? "it ended the connection"
                                            : status.message())));
}

}  // namespace tributary
