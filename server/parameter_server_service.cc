#include "server/parameter_server_service.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/shared_memory.h"
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

// A gradient in the pieces in which it came from the wire.
class ReceivedGradient final : public GradientSource {
 public:
  explicit ReceivedGradient(ReceivedPayload payload)
      : payload_(std::move(payload)) {}

  const float* Read(int64_t begin, int64_t count,
                    float* scratch) const override {
    payload_.Read(begin, count, scratch);
    return scratch;
  }

 private:
  const ReceivedPayload payload_;
};

// One worker's stream.
class ExchangeStream final
    : public ServerStream<grpc::ByteBuffer, grpc::ByteBuffer>,
      public WeightsSubscriber {
 public:
  // `store` may be null: the call is refused.
  ExchangeStream(int shard, ParameterStore* store, TransportCounters* counters,
                 StepArrivals* arrivals, std::shared_ptr<LiveCalls> calls)
      : ServerStream(std::move(calls)),
        shard_(shard),
        store_(store),
        counters_(counters),
        arrivals_(arrivals) {
    if (store_ == nullptr) {
      Close(grpc::Status(grpc::StatusCode::UNAVAILABLE,
                         "this server does not know the model yet"));
    } else {
      words_per_message_ = WordsPerMessage(store_->chunk_numbers().size(),
                                           store_->layout().chunk_elements());
    }
  }

  void OnBurstEnd() override { Wake(); }

  void OnWeights(const WeightsVersion& weights) override {
    if (weights.values == nullptr) {
      {
        absl::MutexLock lock(&in_place_mu_);
        if (in_place_.size() >= 4 * store_->chunk_numbers().size()) {
          DropOld(weights.version - 2);
        }
        in_place_.emplace_back(weights.version, weights.chunk);
        if (weights.more && in_place_.size() < words_per_message_) return;
      }
      Wake();
      return;
    }
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

  bool TakeMore(grpc::ByteBuffer* out) override {
    std::vector<std::pair<int64_t, int>> versions;
    {
      absl::MutexLock lock(&in_place_mu_);
      versions.swap(in_place_);
    }
    if (versions.empty()) return false;
    std::sort(versions.begin(), versions.end());
    ServerMessage message;
    for (const auto& [version, chunk] : versions) {
      Weights* weights = message.mutable_in_memory()->add_weights();
      weights->set_version(version);
      weights->set_chunk(chunk);
    }
    *out = Encode(message);
    return true;
  }

  // Nobody needs word of these: bounds the list of a worker that does not read.
  void DropOld(int64_t version) ABSL_EXCLUSIVE_LOCKS_REQUIRED(in_place_mu_) {
    in_place_.erase(
        std::remove_if(in_place_.begin(), in_place_.end(),
                       [version](const std::pair<int64_t, int>& word) {
                         return word.first <= version;
                       }),
        in_place_.end());
  }

  absl::Status Handle(grpc::ByteBuffer* bytes) {
    WorkerMessage message;
    ReceivedPayload payload;
    const auto elements =
        [&](const WorkerMessage& m) -> absl::StatusOr<int64_t> {
      const int chunk =
          m.has_initial() ? m.initial().chunk() : m.contribution().chunk();
      TRIBUTARY_RETURN_IF_ERROR(store_->CheckChunk(chunk));
      return store_->layout().ChunkSize(chunk);
    };
    counters_->bytes_received += bytes->Length();
    TRIBUTARY_RETURN_IF_ERROR(
        DecodeInPlace(bytes, &message, &payload, elements));
    if (message.has_hello()) return OnHello(message.hello());
    if (message.message_case() == WorkerMessage::MESSAGE_NOT_SET) {
      return absl::InvalidArgumentError("a message of no known kind");
    }
    if (!welcomed_) {
      return absl::FailedPreconditionError("the first message must be Hello");
    }
    switch (message.message_case()) {
      case WorkerMessage::kInitial: {
        Buffer values = store_->TakeBuffer();
        payload.Read(0, payload.elements(), values.get());
        return store_->AddInitial(message.initial().chunk(), std::move(values));
      }
      case WorkerMessage::kContribution:
        return AddContribution(
            message.contribution(),
            std::make_shared<ReceivedGradient>(std::move(payload)));
      case WorkerMessage::kInMemory:
        return OnContributionsInMemory(message.in_memory());
      case WorkerMessage::kMemoryAnswer:
        if (subscribed_) {
          return absl::FailedPreconditionError("an answer to no offer");
        }
        Subscribe(/*in_memory=*/message.memory_answer().mapped());
        return absl::OkStatus();
      case WorkerMessage::kHello:
      case WorkerMessage::MESSAGE_NOT_SET:
        break;
    }
    return absl::InvalidArgumentError("unexpected message from a worker");
  }

  absl::Status AddContribution(const Contribution& c,
                               std::shared_ptr<const GradientSource> gradient) {
    arrivals_->Add(c.step(), incarnation_);
    return store_->AddContribution(
        c.step(), c.chunk(), c.node(),
        {std::move(gradient), c.weight(), c.loss_sum()});
  }

  absl::Status OnContributionsInMemory(const ContributionsInMemory& message) {
    if (memory_ == nullptr) {
      return absl::FailedPreconditionError(
          "gradients in memory that was not agreed on");
    }
    const int64_t elements = memory_->bytes() / int64_t{sizeof(float)};
    for (const Contribution& c : message.contribution()) {
      TRIBUTARY_RETURN_IF_ERROR(store_->CheckChunk(c.chunk()));
      const int64_t size = store_->layout().ChunkSize(c.chunk());
      if (c.offset() < 0 || c.offset() > elements - size) {
        return absl::InvalidArgumentError(
            absl::StrCat("a gradient at element ", c.offset(), " of ", elements,
                         " in the worker's memory"));
      }
      const float* values =
          reinterpret_cast<const float*>(memory_->data()) + c.offset();
      TRIBUTARY_RETURN_IF_ERROR(AddContribution(
          c, std::make_shared<GradientInMemory>(values, memory_)));
    }
    return absl::OkStatus();
  }

  absl::Status OnHello(const Hello& hello) {
    const std::string& expected = store_->layout().signature();
    if (hello.signature() != expected) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the model's signature is ", hello.signature().substr(0, 12),
          " at the worker, ", expected.substr(0, 12), " at server ", shard_,
          ": use the same job and release everywhere"));
    }
    if (welcomed_) return absl::FailedPreconditionError("a second Hello");
    welcomed_ = true;
    incarnation_ = hello.incarnation();
    ServerMessage welcome;
    welcome.mutable_welcome()->set_shard(shard_);
    for (const int chunk : store_->chunk_numbers()) {
      welcome.mutable_welcome()->add_chunk(chunk);
    }
    if (hello.has_memory()) AgreeOnMemory(hello.memory(), &welcome);
    Send(Encode(welcome), /*priority=*/-1);
    if (memory_ == nullptr) Subscribe(/*in_memory=*/false);
    return absl::OkStatus();
  }

  // Maps the worker's memory and offers the store's. Where either does not
  // work, nothing is lost: the stream carries everything.
  void AgreeOnMemory(const SharedMemoryOffer& offer, ServerMessage* welcome) {
    absl::StatusOr<std::shared_ptr<const MappedMemory>> memory =
        MappedMemory::Map(offer);
    if (!memory.ok()) return;
    const absl::StatusOr<SharedMemoryOffer> ours = store_->ShareWeights();
    if (!ours.ok()) return;
    memory_ = *std::move(memory);
    *welcome->mutable_welcome()->mutable_memory() = *ours;
  }

  void Subscribe(bool in_memory) {
    subscribed_ = true;
    store_->Subscribe(this, in_memory);
  }

  const int shard_;
  ParameterStore* const store_;
  TransportCounters* const counters_;
  size_t words_per_message_ = 1;
  StepArrivals* const arrivals_;
  // Touched only by the read in flight.
  bool welcomed_ = false;
  int64_t incarnation_ = 0;
  bool subscribed_ = false;
  std::shared_ptr<const MappedMemory> memory_;  // The worker's gradients.

  absl::Mutex in_place_mu_;
  // (version, chunk) of which word has not been sent.
  std::vector<std::pair<int64_t, int>> in_place_ ABSL_GUARDED_BY(in_place_mu_);
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
  auto* stream = new ExchangeStream(shard_, store(), &counters_, &arrivals_, calls_);
  stream->Start();
  return stream;
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* ParameterServerService::ReadWeights(
    grpc::CallbackServerContext*, const grpc::ByteBuffer* request) {
  return new WeightsReader(store(), *request, &counters_, calls_);
}

}  // namespace tributary
