#include "server/service/parameter_server_service.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/buffer_pool.h"
#include "common/base/failpoint.h"
#include "common/base/limits.h"
#include "common/base/retry.h"
#include "common/base/status_macros.h"
#include "common/codec/encoding.h"
#include "common/codec/top_k.h"
#include "common/os/shared_memory.h"
#include "common/transport/channel.h"
#include "common/transport/chunk_codec.h"
#include "common/transport/received_floats.h"
#include "common/transport/server_stream.h"
#include "server/membership/peer_checks.h"
#include "server/service/arrived_gradient.h"
#include "server/store/pinned_arenas.h"

namespace tributary {
namespace {

grpc::ByteBuffer EncodeWeights(int64_t version, int chunk,
                               const EncodedFloats& values, bool difference) {
  ServerMessage message;
  message.mutable_weights()->set_version(version);
  message.mutable_weights()->set_chunk(chunk);
  message.mutable_weights()->set_encoding(values.encoding);
  message.mutable_weights()->set_difference(difference);
  return EncodeWithPayload(message, values.data, values.bytes, values.owner);
}

// Refused workers in the log of one attempt: they may be started again and
// again.
constexpr int kMostRefusals = 100;

// Older versions first, then the first layers, with which forward begins. Even,
// so that OnOutcome can use the next number.
int64_t WritePriority(int64_t version, int chunk) {
  return ((version + 1) << 24 | chunk) << 1;
}

// How many differences of a chunk fit into the bytes of the chunk; at least 2.
int64_t DifferencesPerWhole(const ExchangeSpec& exchange) {
  constexpr int64_t kLikeAChunk = 1 << 18;
  const int64_t bytes =
      exchange.compression().has_top_k()
          ? 8 * TopKCount(exchange.compression().top_k().fraction(),
                          kLikeAChunk)
          : PayloadBytes(EIGHT_BIT, kLikeAChunk);
  return std::max<int64_t>(2, PayloadBytes(FLOAT32, kLikeAChunk) / bytes);
}

// One worker's stream.
class ExchangeStream final
    : public ServerStream<grpc::ByteBuffer, grpc::ByteBuffer>,
      public WeightsSubscriber {
 public:
  // A null `store` refuses the call with `refusal`.
  ExchangeStream(int shard, std::string job_id, ParameterStore* store,
                 const absl::Status& refusal, int64_t attempt,
                 TransportCounters* counters, StepArrivals* arrivals,
                 ParameterServerService* service,
                 std::shared_ptr<LiveCalls> calls)
      : ServerStream(std::move(calls)),
        shard_(shard),
        job_id_(std::move(job_id)),
        store_(store),
        attempt_(attempt),
        counters_(counters),
        differences_per_whole_(
            store == nullptr ? 0 : DifferencesPerWhole(store->exchange())),
        arrivals_(arrivals),
        service_(service) {
    if (store_ == nullptr) {
      Close(ToGrpc(refusal));
    } else {
      words_per_message_ = WordsPerMessage(store_->chunk_numbers().size(),
                                           store_->layout().chunk_elements());
    }
  }

  // Sent after all older weights, which a worker needs to repeat a step.
  void OnOutcome(const Outcome& outcome, int64_t version) override {
    ServerMessage message;
    *message.mutable_outcome() = outcome;
    Send(Encode(message), WritePriority(version, outcome.chunk()) + 1);
  }

  void OnBurstEnd() override { Wake(); }

  void OnWeights(const WeightsVersion& weights) override {
    if (weights.values.data == nullptr) {
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
    if (weights.difference.data != nullptr) {
      SendDifference(weights);
      return;
    }
    // Versions older than useful_versions are not needed (see ParameterStore).
    // Dropping them bounds the queue of a worker that does not read.
    const int64_t useless = weights.version - store_->useful_versions();
    if (useless >= 0) Drop(WritePriority(useless, weights.chunk));
    Send(weights.version, weights.chunk, weights.values, /*difference=*/false);
  }

 private:
  void OnMessage(grpc::ByteBuffer* bytes) override {
    if (store_ == nullptr) return;
    const absl::Status status = Handle(bytes);
    if (status.ok()) return;
    service_->NoteRefusal(incarnation_, status);
    Close(ToGrpc(status));
  }

  void OnEnd() override { Close(grpc::Status::OK); }

  void OnGone() override {
    if (subscribed_) store_->Unsubscribe(this);
  }

  using ServerStream::Send;
  void Send(int64_t version, int chunk, const EncodedFloats& values,
            bool difference) {
    counters_->bytes_sent += values.bytes;
    Send(EncodeWeights(version, chunk, values, difference),
         WritePriority(version, chunk));
  }

  // A difference needs the one before it, so none may be dropped alone. If the
  // queued differences are as large as the chunk, sends the chunk instead, at
  // the two versions that workers may need. This also bounds the queue.
  void SendDifference(const WeightsVersion& weights) {
    const int chunk = weights.chunk;
    const int64_t oldest = weights.version - differences_per_whole_;
    if (oldest < 0 || !Drop(WritePriority(oldest, chunk))) {
      Send(weights.version, chunk, weights.difference, /*difference=*/true);
      return;
    }
    for (int64_t v = oldest + 1; v < weights.version; ++v) {
      Drop(WritePriority(v, chunk));
    }
    Send(weights.version - 1, chunk, weights.previous, /*difference=*/false);
    Send(weights.version, chunk, weights.values, /*difference=*/false);
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

  // Drops notices of old versions, to bound the list if a worker does not read.
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
    counters_->bytes_received += bytes->Length();
    TRIBUTARY_RETURN_IF_ERROR(DecodeInPlace(bytes, &message, &payload));
    if (message.has_hello()) return OnHello(message.hello());
    if (message.message_case() == WorkerMessage::MESSAGE_NOT_SET) {
      return absl::InvalidArgumentError("a message of an unknown kind");
    }
    if (!welcomed_) {
      return absl::FailedPreconditionError("the first message must be Hello");
    }
    switch (message.message_case()) {
      case WorkerMessage::kInitial:
        return AddInitial(message.initial(), std::move(payload));
      case WorkerMessage::kContribution:
        return AddReceived(message.contribution(), std::move(payload));
      case WorkerMessage::kInMemory:
        return OnContributionsInMemory(message.in_memory());
      case WorkerMessage::kMemoryAnswer:
        if (subscribed_) {
          return absl::FailedPreconditionError("MemoryAnswer without an offer");
        }
        Subscribe(/*in_memory=*/message.memory_answer().mapped());
        return absl::OkStatus();
      case WorkerMessage::kHello:
      case WorkerMessage::MESSAGE_NOT_SET:
        break;
    }
    return absl::InvalidArgumentError("unexpected message from a worker");
  }

  absl::StatusOr<ReceivedFloats> Receive(int chunk, Encoding encoding,
                                         ReceivedPayload payload) {
    TRIBUTARY_RETURN_IF_ERROR(store_->CheckChunk(chunk));
    return ReceivedFloats::Create(encoding, std::move(payload),
                                  store_->layout().ChunkSize(chunk));
  }

  absl::Status AddInitial(const Initial& initial, ReceivedPayload payload) {
    TRIBUTARY_ASSIGN_OR_RETURN(
        const ReceivedFloats floats,
        Receive(initial.chunk(), FLOAT32, std::move(payload)));
    Buffer values = store_->TakeBuffer();
    floats.Read(0, store_->layout().ChunkSize(initial.chunk()), values.get());
    return store_->AddInitial(initial.chunk(), std::move(values));
  }

  absl::Status AddReceived(const Contribution& c, ReceivedPayload payload) {
    const Encoding expected = GradientEncoding(store_->exchange());
    if (c.encoding() != expected) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a contribution in encoding ", Encoding_Name(c.encoding()),
          "; the job's is ", Encoding_Name(expected)));
    }
    TRIBUTARY_ASSIGN_OR_RETURN(
        ReceivedFloats floats,
        Receive(c.chunk(), c.encoding(), std::move(payload)));
    return AddContribution(c, GradientFromWire(std::move(floats)));
  }

  absl::Status AddContribution(const Contribution& c,
                               std::shared_ptr<const GradientSource> gradient) {
    TRIBUTARY_RETURN_IF_ERROR(Failpoint("S4"));
    arrivals_->Add(c.step(), incarnation_);
    NodeSum sum;
    sum.step = c.step();
    sum.node = c.node();
    sum.gradient = std::move(gradient);
    sum.sample_count = c.weight();
    sum.loss_sum = c.loss_sum();
    sum.contributor = incarnation_;
    sum.base_version = c.base_version();
    sum.gradient_norm = c.gradient_norm();
    sum.sender = id();
    return store_->AddContribution(c.chunk(), std::move(sum));
  }

  absl::Status OnContributionsInMemory(const ContributionsInMemory& message) {
    if (memory_ == nullptr) {
      return absl::FailedPreconditionError(
          "gradients in shared memory that the server has not mapped");
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
          c, GradientAt(values, store_->exchange().wire_dtype(),
                        gradients_->Use(c.offset() * int64_t{sizeof(float)},
                                        size * int64_t{sizeof(float)}))));
    }
    return absl::OkStatus();
  }

  absl::Status OnHello(const Hello& hello) {
    if (!welcomed_) incarnation_ = hello.incarnation();
    TRIBUTARY_RETURN_IF_ERROR(CheckJob(hello.job_id(), job_id_));
    const std::string& expected = store_->layout().signature();
    if (hello.signature() != expected) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the model's signature is ", hello.signature().substr(0, 12),
          " at the worker, ", expected.substr(0, 12), " at server ", shard_,
          ": use the same job and release everywhere"));
    }
    if (hello.attempt() != attempt_) {
      return absl::AbortedError(absl::StrCat(
          "the worker belongs to attempt ", hello.attempt(),
          " of the job, server ", shard_, " to ", attempt_, ": join again"));
    }
    if (welcomed_) return absl::FailedPreconditionError("a second Hello");
    welcomed_ = true;
    ServerMessage welcome;
    welcome.mutable_welcome()->set_shard(shard_);
    for (const int chunk : store_->chunk_numbers()) {
      welcome.mutable_welcome()->add_chunk(chunk);
    }
    if (hello.has_memory()) AgreeOnMemory(hello.memory(), &welcome);
    Send(Encode(welcome), /*priority=*/-1);
    TRIBUTARY_RETURN_IF_ERROR(Failpoint("S3"));
    if (memory_ == nullptr) Subscribe(/*in_memory=*/false);
    return absl::OkStatus();
  }

  // Maps the worker's memory and offers the store's; else the stream is used.
  void AgreeOnMemory(const SharedMemoryOffer& offer, ServerMessage* welcome) {
    if (store_->exchange().has_compression()) return;
    absl::StatusOr<std::shared_ptr<const MappedMemory>> memory =
        MappedMemory::Map(offer);
    if (!memory.ok()) return;
    // Reading weights in place needs an older version to fall back on.
    const absl::StatusOr<SharedMemoryOffer> ours =
        store_->useful_versions() > 1
            ? store_->ShareWeights()
            : absl::StatusOr<SharedMemoryOffer>(SharedMemoryOffer());
    if (!ours.ok()) return;
    memory_ = *std::move(memory);
    float* const gradients =
        reinterpret_cast<float*>(const_cast<char*>(memory_->data()));
    gradients_ = std::make_unique<PinnedArenas>(
        Buffer(memory_, gradients), memory_->bytes(),
        RoundUpToPage(store_->layout().arena_elements() *
                      int64_t{sizeof(float)}),
        store_->pin_memory());
    *welcome->mutable_welcome()->mutable_memory() = *ours;
  }

  void Subscribe(bool in_memory) {
    subscribed_ = true;
    store_->Subscribe(this, in_memory);
  }

  const int shard_;
  const std::string job_id_;
  ParameterStore* const store_;
  const int64_t attempt_;
  TransportCounters* const counters_;
  const int64_t differences_per_whole_;
  size_t words_per_message_ = 1;
  StepArrivals* const arrivals_;
  ParameterServerService* const service_;
  // Accessed only by the read in flight.
  bool welcomed_ = false;
  int64_t incarnation_ = 0;
  bool subscribed_ = false;
  std::shared_ptr<const MappedMemory> memory_;  // The worker's gradients.
  std::unique_ptr<PinnedArenas> gradients_;     // In the same memory.

  absl::Mutex in_place_mu_;
  // (version, chunk) of weights that were not announced to the worker yet.
  std::vector<std::pair<int64_t, int>> in_place_ ABSL_GUARDED_BY(in_place_mu_);
};

// Sends every chunk at one version.
class WeightsReader final : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  WeightsReader(ParameterStore* store, const absl::Status& refusal,
                const grpc::ByteBuffer& request, TransportCounters* counters,
                std::shared_ptr<LiveCalls> calls)
      : token_(std::move(calls)), store_(store), counters_(counters) {
    grpc::ByteBuffer bytes = request;
    absl::Status status = Decode(&bytes, &request_);
    if (status.ok()) status = Failpoint("J4");
    if (store == nullptr) {
      Finish(ToGrpc(refusal));
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
    counters_->bytes_sent += weights->values.bytes;
    out_ = EncodeWeights(weights->version, weights->chunk, weights->values,
                         /*difference=*/false);
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

ParameterServerService::ParameterServerService(int shard, Logger* log)
    : shard_(shard), log_(log) {}

ParameterServerService::~ParameterServerService() = default;

void ParameterServerService::Serve(ParameterStore* store,
                                   const std::string& job_id, int64_t attempt) {
  absl::MutexLock lock(&mu_);
  store_ = store;
  job_id_ = job_id;
  attempt_ = attempt;
}

void ParameterServerService::Refuse(const absl::Status& status) {
  absl::MutexLock lock(&mu_);
  refusal_ = status;
}

void ParameterServerService::CountBytes(ProcessStatistics* statistics) const {
  statistics->set_bytes_sent(counters_.bytes_sent);
  statistics->set_bytes_received(counters_.bytes_received);
}

std::string ParameterServerService::job_id() const {
  absl::MutexLock lock(&mu_);
  return job_id_;
}

int64_t ParameterServerService::attempt() const {
  absl::MutexLock lock(&mu_);
  return attempt_;
}

void ParameterServerService::NoteRefusal(int64_t incarnation,
                                         const absl::Status& status) {
  if (IsTransient(status) || refusals_++ >= kMostRefusals) return;
  log_->Warning("refused the worker of incarnation %d: %s", incarnation,
                std::string(status.message()));
}

absl::Status ParameterServerService::refusal() const {
  absl::MutexLock lock(&mu_);
  return refusal_;
}

ParameterStore* ParameterServerService::store() const {
  absl::MutexLock lock(&mu_);
  return store_;
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>*
ParameterServerService::Exchange(grpc::CallbackServerContext*) {
  auto* stream =
      new ExchangeStream(shard_, job_id(), store(), refusal(), attempt(),
                         &counters_, &arrivals_, this, calls_);
  stream->Start(kDefaultLimits.handshake_timeout);
  return stream;
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* ParameterServerService::ReadWeights(
    grpc::CallbackServerContext*, const grpc::ByteBuffer* request) {
  return new WeightsReader(store(), refusal(), *request, &counters_, calls_);
}

}  // namespace tributary
