#include "worker/exchange/parameter_server_exchange.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/transport/channel.h"
#include "common/transport/chunk_codec.h"
#include "common/transport/client_stream.h"
#include "grpcpp/generic/generic_stub.h"

namespace tributary {
namespace {

constexpr char kExchangeMethod[] = "/tributary.ParameterServer/Exchange";

// Older steps first, and of one step the first layers first: the next forward
// begins with them.
int64_t WritePriority(int64_t step, int chunk) {
  return (step + 1) << 24 | chunk;
}

}  // namespace

// The connection to one server.
class ParameterServerExchange::Stream final
    : public ClientStream<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  Stream(ParameterServerExchange* exchange, int shard, std::string address)
      : exchange_(exchange),
        shard_(shard),
        address_(std::move(address)),
        channel_(CreateChannel(address_)),
        stub_(channel_) {}

  absl::Status Connect(absl::Time deadline, const Hello& hello) {
    if (!channel_->WaitForConnected(absl::ToChronoTime(deadline))) {
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
    *message.mutable_hello() = hello;
    Send(Encode(message), /*priority=*/-1);
    return absl::OkStatus();
  }

  bool started() const { return started_; }

  // Handles the message that had to wait, and reads on.
  void Retry() {
    if (OnMessage(waiting_)) Resume();
  }

 private:
  std::string Name() const {
    return absl::StrCat("server ", shard_, " (", address_, ")");
  }

  bool OnMessage(grpc::ByteBuffer* bytes) override {
    ServerMessage message;
    WorkState::Arrival arrival = WorkState::Arrival::kDrop;
    const auto place =
        [&](const ServerMessage& m) -> absl::StatusOr<PayloadTarget> {
      const Weights& weights = m.weights();
      if (weights.chunk() < 0 ||
          weights.chunk() >= exchange_->layout_->chunk_count() ||
          weights.version() < 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("weights of chunk ", weights.chunk(), ", version ",
                         weights.version(), ": there is no such chunk"));
      }
      PayloadTarget target = {nullptr,
                              exchange_->layout_->ChunkSize(weights.chunk())};
      absl::MutexLock lock(&exchange_->parked_mu_);
      arrival = exchange_->state_->BeginWrite(weights.chunk(),
                                              weights.version(), &target.to);
      if (arrival == WorkState::Arrival::kWrite) return target;
      if (arrival == WorkState::Arrival::kPark) {
        waiting_ = bytes;
        exchange_->parked_.push_back(this);
      }
      // Neither is an error: see below.
      return absl::CancelledError();
    };
    const absl::Status status = DecodeWithPayload(bytes, &message, place);
    if (arrival == WorkState::Arrival::kPark) return false;
    if (!status.ok() && !absl::IsCancelled(status)) {
      exchange_->state_->Fail(absl::Status(
          status.code(), absl::StrCat(Name(), ": ", status.message())));
      Cancel();
      return true;
    }
    if (arrival == WorkState::Arrival::kWrite) {
      exchange_->state_->EndWrite(message.weights().chunk(),
                                  message.weights().version());
    }
    exchange_->bytes_received_ += bytes->Length();
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
  const std::shared_ptr<grpc::Channel> channel_;
  grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer> stub_;
  bool started_ = false;
  grpc::ByteBuffer* waiting_ = nullptr;  // While parked.
};

ParameterServerExchange::ParameterServerExchange(const ArenaLayout* layout,
                                                 WorkState* state)
    : layout_(layout), state_(state) {}

absl::StatusOr<std::unique_ptr<ParameterServerExchange>>
ParameterServerExchange::Connect(const Options& options,
                                 const ArenaLayout* layout, WorkState* state) {
  auto exchange = std::unique_ptr<ParameterServerExchange>(
      new ParameterServerExchange(layout, state));
  state->SetUnparked([raw = exchange.get()] { raw->RetryParked(); });
  Hello hello;
  hello.set_incarnation(options.incarnation);
  hello.set_signature(layout->signature());
  const absl::Time deadline = absl::Now() + options.connect_timeout;
  for (size_t shard = 0; shard < options.servers.size(); ++shard) {
    exchange->streams_.push_back(std::make_unique<Stream>(
        exchange.get(), static_cast<int>(shard), options.servers[shard]));
    TRIBUTARY_RETURN_IF_ERROR(
        exchange->streams_.back()->Connect(deadline, hello));
  }
  return exchange;
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
    const int64_t elements = layout_->ChunkSize(chunk);
    bytes_sent_ += elements * sizeof(float);
    const int shard =
        ArenaLayout::ShardOf(chunk, static_cast<int>(streams_.size()));
    streams_[shard]->Send(
        EncodeWithPayload(message, arena.get() + layout_->ChunkBegin(chunk),
                          elements, arena),
        /*priority=*/0);
  }
}

void ParameterServerExchange::Push(int64_t step, NodeChunk sum) {
  WorkerMessage message;
  Contribution* contribution = message.mutable_contribution();
  contribution->set_step(step);
  contribution->set_chunk(sum.chunk);
  contribution->set_node(sum.node);
  contribution->set_weight(sum.weight);
  if (sum.chunk == 0) contribution->set_loss_sum(sum.loss_sum);
  const int64_t elements = layout_->ChunkSize(sum.chunk);
  bytes_sent_ += elements * sizeof(float);
  const int shard =
      ArenaLayout::ShardOf(sum.chunk, static_cast<int>(streams_.size()));
  const float* payload = sum.arena.get() + layout_->ChunkBegin(sum.chunk);
  streams_[shard]->Send(
      EncodeWithPayload(message, payload, elements, std::move(sum.arena)),
      WritePriority(step, sum.chunk));
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
