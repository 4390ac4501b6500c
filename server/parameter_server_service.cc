#include "server/parameter_server_service.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/transport/channel.h"
#include "common/transport/chunk_codec.h"
#include "common/transport/server_stream.h"

namespace tributary {
namespace {

grpc::ByteBuffer EncodeWeights(const WeightsVersion& weights) {
  ServerMessage message;
  message.mutable_weights()->set_version(weights.version);
  message.mutable_weights()->set_chunk(weights.chunk);
  return EncodeWithPayload(message, weights.values.get(), weights.elements,
                           weights.values);
}

// Older versions first, and of one version the first layers first: forward
// begins with them.
int64_t WritePriority(int64_t version, int chunk) {
  return (version + 1) << 24 | chunk;
}

// One worker's stream.
class ExchangeStream final
    : public ServerStream<grpc::ByteBuffer, grpc::ByteBuffer>,
      public WeightsSubscriber {
 public:
  // `store` may be null: the call is refused.
  ExchangeStream(int shard, ParameterStore* store, TransportCounters* counters,
                 std::shared_ptr<LiveCalls> calls)
      : ServerStream(std::move(calls)),
        shard_(shard),
        store_(store),
        counters_(counters) {
    if (store_ == nullptr) {
      Close(grpc::Status(grpc::StatusCode::UNAVAILABLE,
                         "this server does not know the model yet"));
    }
  }

  void OnWeights(const WeightsVersion& weights) override {
    // Nobody needs a version two steps back: see ParameterStore. This bounds
    // the queue of a worker that does not read.
    if (weights.version >= 2) {
      Drop(WritePriority(weights.version - 2, weights.chunk));
    }
    counters_->bytes_sent += weights.elements * sizeof(float);
    Send(EncodeWeights(weights), WritePriority(weights.version, weights.chunk));
  }

 private:
  void OnMessage(grpc::ByteBuffer* bytes) override {
    if (store_ == nullptr) return;
    const absl::Status status = Handle(bytes);
    if (!status.ok()) Close(ToGrpc(status));
  }

  void OnEnd() override { Close(grpc::Status::OK); }

  void OnGone() override {
    if (subscribed_) store_->Unsubscribe(this);
  }

  absl::Status Handle(grpc::ByteBuffer* bytes) {
    WorkerMessage message;
    Buffer values;
    const auto place =
        [&](const WorkerMessage& m) -> absl::StatusOr<PayloadTarget> {
      const int chunk =
          m.has_initial() ? m.initial().chunk() : m.contribution().chunk();
      TRIBUTARY_RETURN_IF_ERROR(store_->CheckChunk(chunk));
      values = store_->TakeBuffer();
      return PayloadTarget{values.get(), store_->layout().ChunkSize(chunk)};
    };
    counters_->bytes_received += bytes->Length();
    TRIBUTARY_RETURN_IF_ERROR(DecodeWithPayload(bytes, &message, place));
    if (message.has_hello()) return OnHello(message.hello());
    if (!subscribed_) {
      return absl::FailedPreconditionError("the first message must be Hello");
    }
    if (message.has_initial()) {
      return store_->AddInitial(message.initial().chunk(), std::move(values));
    }
    const Contribution& c = message.contribution();
    return store_->AddContribution(
        c.step(), c.chunk(), c.node(),
        {std::move(values), c.weight(), c.loss_sum()});
  }

  absl::Status OnHello(const Hello& hello) {
    const std::string& expected = store_->layout().signature();
    if (hello.signature() != expected) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the model's signature is ", hello.signature().substr(0, 12),
          " at the worker, ", expected.substr(0, 12), " at server ", shard_,
          ": use the same job and release everywhere"));
    }
    if (subscribed_) return absl::FailedPreconditionError("a second Hello");
    ServerMessage welcome;
    welcome.mutable_welcome()->set_shard(shard_);
    for (const int chunk : store_->chunk_numbers()) {
      welcome.mutable_welcome()->add_chunk(chunk);
    }
    Send(Encode(welcome), /*priority=*/-1);
    subscribed_ = true;
    store_->Subscribe(this);
    return absl::OkStatus();
  }

  const int shard_;
  ParameterStore* const store_;
  TransportCounters* const counters_;
  bool subscribed_ = false;  // Touched only by the read in flight.
};

// Writes every chunk at one version.
class WeightsReader final : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  WeightsReader(ParameterStore* store, const grpc::ByteBuffer& request,
                TransportCounters* counters, std::shared_ptr<LiveCalls> calls)
      : token_(std::move(calls)), store_(store), counters_(counters) {
    grpc::ByteBuffer bytes = request;
    const absl::Status status = Decode(&bytes, &request_);
    if (store == nullptr) {
      Finish(grpc::Status(grpc::StatusCode::UNAVAILABLE,
                          "this server does not know the model yet"));
    } else if (!status.ok()) {
      Finish(ToGrpc(status));
    } else {
      WriteNext();
    }
  }

 private:
  void WriteNext() {
    if (next_ == store_->chunk_numbers().size()) {
      Finish(grpc::Status::OK);
      return;
    }
    const absl::StatusOr<WeightsVersion> weights =
        store_->Read(store_->chunk_numbers()[next_], request_.version());
    if (!weights.ok()) {
      Finish(ToGrpc(weights.status()));
      return;
    }
    ++next_;
    counters_->bytes_sent += weights->elements * sizeof(float);
    out_ = EncodeWeights(*weights);
    StartWrite(&out_);
  }

  void OnWriteDone(bool ok) override {
    if (ok) {
      WriteNext();
    } else {
      Finish(grpc::Status::CANCELLED);
    }
  }

  void OnDone() override { delete this; }

  const LiveCalls::Token token_;
  ParameterStore* const store_;
  TransportCounters* const counters_;
  ReadWeightsRequest request_;
  size_t next_ = 0;
  grpc::ByteBuffer out_;
};

}  // namespace

void ParameterServerService::Serve(ParameterStore* store) {
  absl::MutexLock lock(&mu_);
  store_ = store;
}

ParameterStore* ParameterServerService::store() const {
  absl::MutexLock lock(&mu_);
  return store_;
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>*
ParameterServerService::Exchange(grpc::CallbackServerContext*) {
  auto* stream = new ExchangeStream(shard_, store(), &counters_, calls_);
  stream->Start();
  return stream;
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* ParameterServerService::ReadWeights(
    grpc::CallbackServerContext*, const grpc::ByteBuffer* request) {
  return new WeightsReader(store(), *request, &counters_, calls_);
}

}  // namespace tributary
