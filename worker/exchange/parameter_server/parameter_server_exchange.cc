#include "worker/exchange/parameter_server/parameter_server_exchange.h"

#include <deque>
#include <functional>
#include <iterator>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/failpoint.h"
#include "common/base/monotonic_clock.h"
#include "common/base/status_macros.h"
#include "common/transport/channel.h"
#include "common/transport/chunk_codec.h"
#include "common/transport/client_stream.h"
#include "grpcpp/channel.h"
#include "grpcpp/generic/generic_stub.h"

namespace tributary {
namespace {

constexpr char kExchangeMethod[] = "/tributary.ParameterServer/Exchange";

// Returns the send priority: older steps first, and within a step the first
// layers first, because the next forward pass starts with them.
int64_t WritePriority(int64_t step, int chunk) {
  return (step + 1) << 24 | chunk;
}

}  // namespace

class ParameterServerExchange::Stream final
    : public ClientStream<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  // `in_memory` offers shared memory to the server.
  Stream(ParameterServerExchange* exchange, int shard, std::string address,
         const Security& security, bool in_memory)
      : exchange_(exchange),
        shard_(shard),
        address_(std::move(address)),
        in_memory_(in_memory),
        channel_(CreateChannel(address_, security)),
        stub_(channel_) {}

  absl::Status Connect(absl::Time deadline, const Security& security,
                       Hello hello) {
    WorkState* const state = exchange_->state_;
    const absl::Status connected =
        AwaitConnected(channel_.get(), address_, security, deadline,
                       [state] { return !state->status().ok(); });
    if (absl::IsFailedPrecondition(connected)) return connected;
    if (!connected.ok()) {
      TRIBUTARY_RETURN_IF_ERROR(state->status());
      return absl::UnavailableError(
          absl::StrCat(Name(),
                       " cannot be reached: is its port open to this "
                       "machine? (see --advertise)"));
    }
    stub_.PrepareBidiStreamingCall(context(), kExchangeMethod,
                                   grpc::StubOptions(), this);
    started_ = true;
    Start();
    WorkerMessage message;
    if (in_memory_) *hello.mutable_memory() = exchange_->memory_->offer();
    *message.mutable_hello() = std::move(hello);
    Send(Encode(message), /*priority=*/-1);
    return absl::OkStatus();
  }

  bool started() const { return started_; }

  // Retries the parked message and resumes reading.
  void Retry() ABSL_LOCKS_EXCLUDED(handling_mu_) {
    {
      absl::MutexLock lock(&handling_mu_);
      if (!(waiting_ != nullptr ? Handle(waiting_) : TakeVersions())) return;
    }
    Resume();
  }

  // Sends the sum, or a notice of it if the server shares memory.
  void Push(int64_t step, NodeChunk sum) {
    Contribution contribution;
    contribution.set_step(step);
    contribution.set_chunk(sum.chunk);
    contribution.set_node(sum.node);
    contribution.set_weight(sum.sample_count);
    if (sum.chunk == 0) contribution.set_loss_sum(sum.loss_sum);
    contribution.set_base_version(sum.base_version);
    contribution.set_gradient_norm(sum.gradient_norm);
    const int64_t begin = exchange_->layout_->ChunkBegin(sum.chunk);
    const int64_t offset = exchange_->OffsetOf(sum.arena);
    if (agreed_ && offset >= 0) {
      contribution.set_offset(offset + begin);
      const size_t servers = exchange_->streams_.size();
      const size_t words_per_message =
          WordsPerMessage(exchange_->layout_->chunk_count() / servers,
                          exchange_->layout_->chunk_elements());
      // Backward ends with the first chunk.
      const bool more = sum.chunk >= static_cast<int>(servers);
      {
        absl::MutexLock lock(&memory_mu_);
        held_.insert({{sum.chunk, step}, std::move(sum.arena)});
        *ready_.add_contribution() = std::move(contribution);
        const size_t words = ready_.contribution_size();
        if (more && words < words_per_message) return;
      }
      Wake();
      return;
    }
    EncodedFloats payload = exchange_->encoder_.Encode(sum);
    contribution.set_encoding(payload.encoding);
    exchange_->bytes_sent_ += payload.bytes;
    WorkerMessage message;
    *message.mutable_contribution() = std::move(contribution);
    Send(EncodeWithPayload(message, payload.data, payload.bytes,
                           std::move(payload.owner)),
         WritePriority(step, sum.chunk));
  }

 private:
  std::string Name() const {
    return absl::StrCat("server ", shard_, " (", address_, ")");
  }

  bool OnMessage(grpc::ByteBuffer* bytes) override
      ABSL_LOCKS_EXCLUDED(handling_mu_) {
    absl::MutexLock lock(&handling_mu_);
    return Handle(bytes);
  }

  bool Handle(grpc::ByteBuffer* bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(handling_mu_) {
    waiting_ = nullptr;
    ServerMessage message;
    ReceivedPayload payload;
    const absl::Status status = DecodeInPlace(bytes, &message, &payload);
    if (!status.ok()) return Fail(status);
    switch (message.message_case()) {
      case ServerMessage::kWelcome:
        return OnWelcome(message.welcome());
      case ServerMessage::kInMemory:
        return OnVersions(message.in_memory());
      case ServerMessage::kOutcome:
        return OnOutcome(message.outcome());
      case ServerMessage::kWeights:
        if (!OnWeights(message.weights(), std::move(payload))) {
          waiting_ = bytes;
          return false;
        }
        break;
      case ServerMessage::MESSAGE_NOT_SET:
        break;
    }
    exchange_->bytes_received_ += bytes->Length();
    return true;
  }

  // Returns false if the destination is being read.
  bool OnWeights(const Weights& weights, ReceivedPayload payload)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(handling_mu_) {
    absl::Status status = Check(weights.chunk(), weights.version());
    if (status.ok()) status = Failpoint("W4");
    if (!status.ok()) return Fail(status);
    const int chunk = weights.chunk();
    const absl::StatusOr<ReceivedFloats> floats =
        exchange_->weights_.Take(weights, std::move(payload));
    if (!floats.ok()) return Fail(floats.status());
    float* to = nullptr;
    const WorkState::Arrival arrival = BeginWrite(weights, &to);
    if (arrival == WorkState::Arrival::kPark) return false;
    if (arrival == WorkState::Arrival::kWrite) {
      exchange_->weights_.Write(chunk, *floats, to);
      exchange_->state_->EndWrite(chunk, weights.version());
      exchange_->latency_.Arrived(chunk, MonotonicNow());
    }
    if (agreed_) Release(weights);
    status = Failpoint("W10");
    if (!status.ok()) return Fail(status);
    return true;
  }

  // Ends the connection. Returns true: nothing is parked.
  bool Fail(const absl::Status& status) {
    exchange_->state_->Fail(absl::Status(
        status.code(), absl::StrCat(Name(), ": ", status.message())));
    Cancel();
    return true;
  }

  absl::Status Check(int chunk, int64_t version) const {
    const int servers = static_cast<int>(exchange_->streams_.size());
    if (chunk >= 0 && chunk < exchange_->layout_->chunk_count() &&
        ArenaLayout::ShardOf(chunk, servers) == shard_ && version >= 0) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        absl::StrCat("sent chunk ", chunk, ", version ", version,
                     ", which is not one of its chunks"));
  }

  WorkState::Arrival BeginWrite(const Weights& weights, float** to) {
    absl::MutexLock lock(&exchange_->parked_mu_);
    const WorkState::Arrival arrival =
        exchange_->state_->BeginWrite(weights.chunk(), weights.version(), to);
    if (arrival == WorkState::Arrival::kPark) {
      exchange_->parked_.push_back(this);
    }
    return arrival;
  }

  // Maps the server's weights if both sides offered their memory.
  bool OnWelcome(const Welcome& welcome) {
    absl::Status status;
    if (!welcome.has_memory()) {
      status = absl::FailedPreconditionError(
          "shared memory: the server declined the offer");
    } else if (!in_memory_) {
      return Fail(absl::FailedPreconditionError(
          "offered shared memory that this worker did not request"));
    } else {
      agreed_ = true;
      const bool offered = welcome.memory().bytes() > 0;
      if (offered) status = MapWeights(welcome.memory());
      WorkerMessage answer;
      answer.mutable_memory_answer()->set_mapped(offered && status.ok());
      Send(Encode(answer));
    }
    if (!status.ok() && exchange_->transport_ == ExchangeSpec::MEMORY) {
      return Fail(absl::FailedPreconditionError(absl::StrCat(
          status.message(),
          "; set exchange.transport to AUTO, which falls back to another "
          "transport")));
    }
    return true;
  }

  absl::Status MapWeights(const SharedMemoryOffer& offer) {
    TRIBUTARY_ASSIGN_OR_RETURN(const std::shared_ptr<const MappedMemory> memory,
                               MappedMemory::Map(offer));
    return exchange_->state_->MapChunks(
        *memory, shard_, static_cast<int>(exchange_->streams_.size()));
  }

  bool OnVersions(const WeightsInMemory& versions)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(handling_mu_) {
    for (const Weights& weights : versions.weights()) {
      absl::Status status = Check(weights.chunk(), weights.version());
      if (status.ok()) status = Failpoint("W4");
      if (!status.ok()) return Fail(status);
      // The server has read the gradients, even if the weights are dropped
      // here.
      Release(weights);
      versions_.push_back(weights);
    }
    return TakeVersions();
  }

  // Passes on versions that are already in shared memory. Returns false if one
  // must be parked.
  bool TakeVersions() ABSL_EXCLUSIVE_LOCKS_REQUIRED(handling_mu_) {
    while (!versions_.empty()) {
      const Weights& weights = versions_.front();
      float* unused = nullptr;
      const WorkState::Arrival arrival = BeginWrite(weights, &unused);
      if (arrival == WorkState::Arrival::kPark) return false;
      if (arrival == WorkState::Arrival::kWrite) {
        exchange_->state_->EndWrite(weights.chunk(), weights.version());
        exchange_->latency_.Arrived(weights.chunk(), MonotonicNow());
      }
      versions_.pop_front();
      const absl::Status status = Failpoint("W10");
      if (!status.ok()) return Fail(status);
    }
    return true;
  }

  bool OnOutcome(const Outcome& outcome) {
    const absl::Status status = Check(outcome.chunk(), outcome.step());
    if (!status.ok()) return Fail(status);
    {
      absl::MutexLock lock(&memory_mu_);
      held_.erase({outcome.chunk(), outcome.step()});
    }
    exchange_->state_->SetOutcome(outcome);
    return true;
  }

  // Releases arenas whose gradients of this chunk are included in the new
  // version.
  void Release(const Weights& weights) {
    if (exchange_->answered_) return;
    absl::MutexLock lock(&memory_mu_);
    held_.erase(held_.lower_bound({weights.chunk(), 0}),
                held_.lower_bound({weights.chunk(), weights.version()}));
  }

  bool TakeMore(grpc::ByteBuffer* out) override {
    WorkerMessage message;
    {
      absl::MutexLock lock(&memory_mu_);
      if (ready_.contribution().empty()) return false;
      message.mutable_in_memory()->Swap(&ready_);
    }
    *out = Encode(message);
    return true;
  }

  void OnGone(const grpc::Status& status) override {
    if (exchange_->finishing_) return;
    exchange_->state_->Fail(absl::Status(
        status.ok() ? absl::StatusCode::kUnavailable
                    : static_cast<absl::StatusCode>(status.error_code()),
        absl::StrCat(
            "lost ", Name(), ": ",
            status.ok() ? "it ended the connection" : status.error_message())));
  }

  ParameterServerExchange* const exchange_;
  const int shard_;
  const std::string address_;
  const bool in_memory_;
  const std::shared_ptr<grpc::Channel> channel_;
  grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer> stub_;
  bool started_ = false;
  // True once both sides share memory: gradients are not sent over the stream.
  std::atomic<bool> agreed_{false};

  // Serializes message handling: Retry may run while the handler that parked is
  // still returning.
  absl::Mutex handling_mu_;
  grpc::ByteBuffer* waiting_ ABSL_GUARDED_BY(handling_mu_) = nullptr;
  std::deque<Weights> versions_ ABSL_GUARDED_BY(handling_mu_);

  absl::Mutex memory_mu_;
  // Arenas that the server may still read, by (chunk, step).
  std::multimap<std::pair<int, int64_t>, Buffer> held_
      ABSL_GUARDED_BY(memory_mu_);
  // Notices not sent yet.
  ContributionsInMemory ready_ ABSL_GUARDED_BY(memory_mu_);
};

ParameterServerExchange::ParameterServerExchange(const Options& options,
                                                 const ArenaLayout* layout,
                                                 WorkState* state)
    : layout_(layout),
      state_(state),
      transport_(options.exchange.transport()),
      answered_(options.traits.contributions_answered),
      encoder_(options.exchange, layout),
      weights_(options.exchange, layout),
      latency_(layout->chunk_count()) {}

absl::StatusOr<std::unique_ptr<ParameterServerExchange>>
ParameterServerExchange::Connect(const Options& options,
                                 const ArenaLayout* layout, WorkState* state) {
  auto exchange = std::unique_ptr<ParameterServerExchange>(
      new ParameterServerExchange(options, layout, state));
  state->SetUnparked([raw = exchange.get()] { raw->RetryParked(); });
  const std::string host = HostIdentity();
  const ExchangeSpec::Transport transport = options.exchange.transport();
  const bool wants_memory =
      (transport == ExchangeSpec::AUTO || transport == ExchangeSpec::MEMORY) &&
      !options.exchange.has_compression();
  for (size_t shard = 0; shard < options.servers.size(); ++shard) {
    const Server& server = options.servers[shard];
    const bool local = server.local.host() == host;
    if (!local && (transport == ExchangeSpec::MEMORY ||
                   transport == ExchangeSpec::UNIX_SOCKET)) {
      return absl::FailedPreconditionError(
          absl::StrCat("server ", shard, " (", server.address,
                       ") is on another host, which "
                       "exchange.transport ",
                       ExchangeSpec::Transport_Name(transport),
                       " cannot reach: use AUTO or WIRE"));
    }
    const bool short_way = local && transport != ExchangeSpec::WIRE;
    if (short_way && wants_memory) exchange->MakeMemory(options.shared_arenas);
    exchange->streams_.push_back(std::make_unique<Stream>(
        exchange.get(), static_cast<int>(shard),
        short_way ? server.local.address() : server.address, options.security,
        short_way && exchange->memory_ != nullptr));
  }
  exchange->MakeArenas(options.pin);
  Hello hello;
  hello.set_incarnation(options.incarnation);
  hello.set_attempt(options.attempt);
  hello.set_job_id(options.job_id);
  hello.set_signature(layout->signature());
  const absl::Time deadline = MonotonicNow() + options.connect_timeout;
  for (const auto& stream : exchange->streams_) {
    TRIBUTARY_RETURN_IF_ERROR(
        stream->Connect(deadline, options.security, hello));
  }
  return exchange;
}

void ParameterServerExchange::MakeMemory(int arenas) {
  if (memory_ != nullptr) return;
  absl::StatusOr<std::shared_ptr<SharedMemory>> memory =
      SharedMemory::Create(arenas * ArenaBytes());
  // Without shared memory, gradients are sent over the stream.
  if (memory.ok()) memory_ = *std::move(memory);
}

int64_t ParameterServerExchange::ArenaBytes() const {
  return RoundUpToPage(layout_->arena_elements() * int64_t{sizeof(float)});
}

void ParameterServerExchange::MakeArenas(const PinMemory& pin) {
  arenas_ = std::make_unique<BufferPool>(
      layout_->arena_elements(),
      [memory = memory_, bytes = ArenaBytes(),
       elements = layout_->arena_elements(), pin,
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

int64_t ParameterServerExchange::OffsetOf(const Buffer& arena) const {
  if (memory_ == nullptr) return -1;
  const char* const at = reinterpret_cast<const char*>(arena.get());
  const std::less<const char*> before;
  if (before(at, memory_->data()) ||
      !before(at, memory_->data() + memory_->bytes())) {
    return -1;
  }
  return (at - memory_->data()) / int64_t{sizeof(float)};
}

ParameterServerExchange::~ParameterServerExchange() {
  finishing_ = true;
  state_->SetUnparked(nullptr);
  for (const auto& stream : streams_) {
    if (!stream->started()) continue;
    stream->Cancel();
    stream->AwaitDone();
  }
}

void ParameterServerExchange::PushInitial(Buffer arena) {
  for (int chunk = 0; chunk < layout_->chunk_count(); ++chunk) {
    WorkerMessage message;
    message.mutable_initial()->set_chunk(chunk);
    const int64_t bytes = PayloadBytes(FLOAT32, layout_->ChunkSize(chunk));
    bytes_sent_ += bytes;
    const int shard =
        ArenaLayout::ShardOf(chunk, static_cast<int>(streams_.size()));
    streams_[shard]->Send(
        EncodeWithPayload(message, arena.get() + layout_->ChunkBegin(chunk),
                          bytes, arena),
        /*priority=*/0);
  }
}

void ParameterServerExchange::Push(int64_t step, NodeChunk sum) {
  const int shard =
      ArenaLayout::ShardOf(sum.chunk, static_cast<int>(streams_.size()));
  absl::Status status = Failpoint("W7");
  if (status.ok() && sum.chunk == layout_->chunk_count() / 2) {
    status = Failpoint("W8");
  }
  if (!status.ok()) state_->Fail(status);
  latency_.Pushed(step, sum.chunk, MonotonicNow());
  streams_[shard]->Push(step, std::move(sum));
}

void ParameterServerExchange::Finish() {
  finishing_ = true;
  for (const auto& stream : streams_) stream->HalfClose();
  for (const auto& stream : streams_) stream->AwaitDone();
}

void ParameterServerExchange::RetryParked() {
  std::vector<Stream*> parked;
  {
    absl::MutexLock lock(&parked_mu_);
    parked.swap(parked_);
  }
  for (Stream* stream : parked) stream->Retry();
}

}  // namespace tributary
