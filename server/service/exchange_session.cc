#include "server/service/exchange_session.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/backoff.h"
#include "common/base/buffer_pool.h"
#include "common/base/failpoint.h"
#include "common/base/status_macros.h"
#include "common/codec/top_k.h"
#include "common/numerics/loss_sum.h"
#include "common/stream/notices.h"
#include "server/membership/peer_checks.h"
#include "server/service/received_gradient.h"

namespace tributary {
namespace {

// Returns the priority of a chunk's weights: older versions first, then the
// first layers, with which forward begins. The result is even, so that
// OnOutcome can use the next number.
int64_t WritePriority(int64_t version, int chunk) {
  return ((version + 1) << 24 | chunk) << 1;
}

// Returns the priority of rows that are needed together with a version of the
// weights: before these. The result is odd, so that no Drop of weights removes
// rows, for which a worker would wait forever.
int64_t RowsPriority(int64_t version) {
  return WritePriority(version, /*chunk=*/0) - 1;
}

// Returns how many differences of a chunk fit into the bytes of the whole
// chunk, but at least 2.
int64_t DifferencesPerWhole(const ExchangeSpec& exchange) {
  constexpr int64_t kLikeAChunk = 1 << 18;
  const int64_t bytes =
      exchange.compression().has_top_k()
          ? 8 * TopKCount(exchange.compression().top_k().fraction(),
                          kLikeAChunk)
          : PayloadBytes(EIGHT_BIT, kLikeAChunk);
  return std::max<int64_t>(2, PayloadBytes(FLOAT32, kLikeAChunk) / bytes);
}

}  // namespace

ServerMessage WeightsHeader(int64_t version, int chunk, Encoding encoding,
                            bool difference) {
  ServerMessage message;
  message.mutable_weights()->set_version(version);
  message.mutable_weights()->set_chunk(chunk);
  message.mutable_weights()->set_encoding(encoding);
  message.mutable_weights()->set_difference(difference);
  return message;
}

OutgoingPayload PayloadOf(const EncodedFloats& values) {
  return {values.data, values.bytes, values.owner};
}

ExchangeSession::ExchangeSession(Served served, TransportCounters* counters,
                                 StepArrivals* arrivals,
                                 ServerStream<ServerMessage>* stream)
    : served_(std::move(served)),
      engine_(served_.weights.engine),
      counters_(counters),
      arrivals_(arrivals),
      stream_(stream),
      differences_per_whole_(
          engine_ == nullptr ? 0
                             : DifferencesPerWhole(engine_->job().exchange())),
      notices_per_message_(
          engine_ == nullptr
              ? 1
              : NoticesPerMessage(engine_->chunk_numbers().size(),
                                  engine_->layout().chunk_elements())),
      memory_(engine_) {
  if (engine_ == nullptr) {
    stream_->Close(served_.refusal);
    return;
  }
  if (engine_->tables() == nullptr) return;
  RowSession::Options rows;
  rows.tables = engine_->tables();
  rows.job = engine_->job();
  rows.stream = stream_;
  rows.id = id();
  rows.bytes_sent = &counters_->bytes_sent;
  rows.begin_sum = [this](int64_t step, int node) {
    return BeginSum(step, node, /*chunk=*/0);
  };
  rows.priority = [](int64_t version) { return RowsPriority(version); };
  rows_ = std::make_unique<RowSession>(std::move(rows));
}

void ExchangeSession::OnOutcome(const Outcome& outcome, int64_t version) {
  ServerMessage message;
  *message.mutable_outcome() = outcome;
  stream_->Send(message, WritePriority(version, outcome.chunk()) + 1);
}

void ExchangeSession::OnWeights(const WeightsVersion& weights) {
  if (requests_ != nullptr) {
    if (requests_->Announce(weights.chunk, weights.version)) {
      SendWhole(weights.version, weights.chunk, weights.values);
    }
    SendNotice(weights);
    return;
  }
  if (weights.values.data == nullptr) {
    counters_->shared_bytes_sent +=
        engine_->layout().ChunkSize(weights.chunk) * int64_t{sizeof(float)};
    SendNotice(weights);
    return;
  }
  if (weights.difference.data != nullptr) {
    SendDifference(weights);
    return;
  }
  SendWhole(weights.version, weights.chunk, weights.values);
}

void ExchangeSession::SendNotice(const WeightsVersion& weights) {
  {
    absl::MutexLock lock(&in_place_mu_);
    if (in_place_.size() >= 4 * engine_->chunk_numbers().size()) {
      DropOld(weights.version - 2);
    }
    in_place_.emplace_back(weights.version, weights.chunk);
    if (weights.more && in_place_.size() < notices_per_message_) return;
  }
  stream_->Wake();
}

void ExchangeSession::SendWhole(int64_t version, int chunk,
                                const EncodedFloats& values) {
  const int64_t useless = version - engine_->useful_versions();
  if (useless >= 0) stream_->Drop(WritePriority(useless, chunk));
  Send(version, chunk, values, /*difference=*/false);
}

void ExchangeSession::OnMessage(const WorkerMessage& message,
                                ReceivedPayload payload) {
  if (engine_ == nullptr) return;
  const absl::Status status = Handle(message, std::move(payload));
  if (status.ok()) return;
  if (served_.on_refusal) served_.on_refusal(incarnation_, status);
  if (welcomed_ && incarnation_ != 0 && !IsTransient(status)) {
    engine_->Revoke(incarnation_);
    if (served_.weights.on_violation) {
      served_.weights.on_violation(incarnation_, status);
    }
  }
  stream_->Close(status);
}

void ExchangeSession::OnGone() {
  if (rows_ != nullptr) rows_->Close();
  if (subscribed_) engine_->Unsubscribe(this);
}

void ExchangeSession::Send(int64_t version, int chunk,
                           const EncodedFloats& values, bool difference) {
  counters_->bytes_sent += values.bytes;
  stream_->Send(WeightsHeader(version, chunk, values.encoding, difference),
                PayloadOf(values), WritePriority(version, chunk));
}

void ExchangeSession::SendDifference(const WeightsVersion& weights) {
  const int chunk = weights.chunk;
  const int64_t oldest = weights.version - differences_per_whole_;
  // Dropped together, so that none is sent without the one before it.
  std::vector<int64_t> queued;
  for (int64_t v = oldest; v < weights.version; ++v) {
    queued.push_back(WritePriority(v, chunk));
  }
  if (oldest < 0 || !stream_->Drop(queued)) {
    Send(weights.version, chunk, weights.difference, /*difference=*/true);
    return;
  }
  Send(weights.version - 1, chunk, weights.previous, /*difference=*/false);
  Send(weights.version, chunk, weights.values, /*difference=*/false);
}

bool ExchangeSession::TakeMore(ServerMessage* message) {
  std::vector<std::pair<int64_t, int>> versions;
  {
    absl::MutexLock lock(&in_place_mu_);
    versions.swap(in_place_);
  }
  if (versions.empty()) return false;
  std::sort(versions.begin(), versions.end());
  for (const auto& [version, chunk] : versions) {
    Weights* weights = message->mutable_in_memory()->add_weights();
    weights->set_version(version);
    weights->set_chunk(chunk);
  }
  return true;
}

void ExchangeSession::DropOld(int64_t version) {
  in_place_.erase(
      std::remove_if(in_place_.begin(), in_place_.end(),
                     [version](const std::pair<int64_t, int>& word) {
                       return word.first <= version;
                     }),
      in_place_.end());
}

absl::Status ExchangeSession::Handle(const WorkerMessage& message,
                                     ReceivedPayload payload) {
  counters_->bytes_received += payload.bytes();
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
      return OnMemoryAnswer(message.memory_answer());
    case WorkerMessage::kAssigned:
      return OnAssigned(message.assigned());
    case WorkerMessage::kFetch:
      return OnFetch(message.fetch());
    case WorkerMessage::kRowsRequest:
    case WorkerMessage::kRowContribution:
      return rows_ == nullptr ? absl::InvalidArgumentError(
                                    "a message about rows in a job without "
                                    "tables")
                              : rows_->Handle(message, payload);
    case WorkerMessage::kHello:
    case WorkerMessage::MESSAGE_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("unexpected message from a worker");
}

absl::StatusOr<ReceivedFloats> ExchangeSession::Receive(
    int chunk, Encoding encoding, ReceivedPayload payload) {
  TRIBUTARY_RETURN_IF_ERROR(engine_->CheckChunk(chunk));
  return ReceivedFloats::Create(encoding, std::move(payload),
                                engine_->layout().ChunkSize(chunk));
}

absl::Status ExchangeSession::AddInitial(const Initial& initial,
                                         ReceivedPayload payload) {
  TRIBUTARY_ASSIGN_OR_RETURN(
      const ReceivedFloats floats,
      Receive(initial.chunk(), FLOAT32, std::move(payload)));
  Buffer values = engine_->memory().TakeBuffer();
  floats.Read(0, engine_->layout().ChunkSize(initial.chunk()), values.get());
  return engine_->AddInitial(initial.chunk(), std::move(values));
}

absl::Status ExchangeSession::AddReceived(const Contribution& c,
                                          ReceivedPayload payload) {
  const Encoding expected = GradientEncoding(engine_->job().exchange());
  if (c.encoding() != expected) {
    return absl::InvalidArgumentError(
        absl::StrCat("a contribution in encoding ", Encoding_Name(c.encoding()),
                     "; the job's is ", Encoding_Name(expected)));
  }
  TRIBUTARY_ASSIGN_OR_RETURN(
      ReceivedFloats floats,
      Receive(c.chunk(), c.encoding(), std::move(payload)));
  return AddContribution(c,
                         std::make_shared<ReceivedGradient>(std::move(floats)));
}

absl::StatusOr<NodeSum> ExchangeSession::BeginSum(int64_t step, int node,
                                                  int chunk) {
  TRIBUTARY_RETURN_IF_ERROR(Failpoint("S4"));
  if (served_.weights.secrets != nullptr && !engine_->traits().whole_batches) {
    TRIBUTARY_RETURN_IF_ERROR(assignments_.Check(
        step, node, static_cast<int>(engine_->job().batch().micro_batches()),
        chunk));
  }
  arrivals_->Add(step, incarnation_);
  NodeSum sum;
  sum.step = step;
  sum.node = node;
  sum.contributor = incarnation_;
  sum.sender = id();
  return sum;
}

absl::Status ExchangeSession::AddContribution(
    const Contribution& c, std::shared_ptr<const GradientSource> gradient) {
  TRIBUTARY_ASSIGN_OR_RETURN(NodeSum sum,
                             BeginSum(c.step(), c.node(), c.chunk()));
  sum.gradient = std::move(gradient);
  sum.sample_count = c.weight();
  sum.loss_sum = c.has_loss_sum() || c.weight() == 0 ? LossSum(c.loss_sum())
                                                     : LossSum::Unknown();
  sum.base_version = c.base_version();
  sum.gradient_norm = c.gradient_norm();
  if (c.has_learning_rate()) sum.learning_rate = c.learning_rate();
  return engine_->AddContribution(c.chunk(), std::move(sum));
}

absl::Status ExchangeSession::OnContributionsInMemory(
    const ContributionsInMemory& message) {
  for (const Contribution& c : message.contribution()) {
    TRIBUTARY_RETURN_IF_ERROR(engine_->CheckChunk(c.chunk()));
    TRIBUTARY_ASSIGN_OR_RETURN(std::shared_ptr<const GradientSource> gradient,
                               memory_.GradientOf(c));
    counters_->shared_bytes_received +=
        engine_->layout().ChunkSize(c.chunk()) * int64_t{sizeof(float)};
    TRIBUTARY_RETURN_IF_ERROR(AddContribution(c, std::move(gradient)));
  }
  return absl::OkStatus();
}

absl::Status ExchangeSession::OnHello(const Hello& hello) {
  const ServedWeights& served = served_.weights;
  const bool proved =
      served.secrets == nullptr || served.secrets->Proves(hello);
  if (!welcomed_ && proved) incarnation_ = hello.incarnation();
  TRIBUTARY_RETURN_IF_ERROR(CheckJob(hello.job_id(), served.job_id));
  const std::string& expected = engine_->layout().signature();
  if (hello.signature() != expected) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the model's signature is ", hello.signature().substr(0, 12),
        " at the worker, ", expected.substr(0, 12), " at server ",
        served_.shard, ": use the same job and release everywhere"));
  }
  if (hello.attempt() != served.attempt) {
    return absl::AbortedError(
        absl::StrCat("the worker belongs to attempt ", hello.attempt(),
                     " of the job, server ", served_.shard, " to ",
                     served.attempt, ": join again"));
  }
  if (welcomed_) return absl::FailedPreconditionError("a second Hello");
  // Last, because each attempt has other secrets.
  if (!proved) {
    return absl::PermissionDeniedError(absl::StrCat(
        "Hello.secret is not that of incarnation ", hello.incarnation(),
        ": send the incarnation and the secret of the worker's Admission"));
  }
  TRIBUTARY_RETURN_IF_ERROR(engine_->CheckNotRevoked(incarnation_));
  TRIBUTARY_ASSIGN_OR_RETURN(
      chunks_, ChunkRanges::Create(hello.chunk_range(),
                                   engine_->layout().chunk_count()));
  if (hello.fetches()) {
    if (hello.has_memory() || engine_->job().exchange().has_compression() ||
        !engine_->traits().one_version_per_round) {
      return absl::InvalidArgumentError(
          "Hello.fetches needs consistency mode synchronous or local_steps, "
          "and neither Hello.memory nor exchange.compression");
    }
    requests_ = std::make_unique<FetchRequests>();
  }
  welcomed_ = true;
  ServerMessage welcome;
  welcome.mutable_welcome()->set_shard(served_.shard);
  for (const int chunk : engine_->chunk_numbers()) {
    welcome.mutable_welcome()->add_chunk(chunk);
  }
  if (hello.has_memory()) {
    memory_.Agree(hello.memory(), welcome.mutable_welcome());
  }
  // The host's memory proves that the worker is on this host.
  if (memory_.shared()) {
    memory_.AgreeOnDevice(hello.device_arenas(), welcome.mutable_welcome());
  }
  stream_->Send(welcome, /*priority=*/-1);
  if (rows_ != nullptr) rows_->Begin();
  TRIBUTARY_RETURN_IF_ERROR(Failpoint("S3"));
  if (!memory_.shared()) {
    subscribed_ = true;
    engine_->Subscribe(this, MemoryPlace::kHost, chunks_);
  }
  return absl::OkStatus();
}

absl::Status ExchangeSession::OnAssigned(const Assigned& assigned) {
  if (served_.weights.secrets == nullptr) return absl::OkStatus();
  if (!served_.weights.secrets->Proves(incarnation_, assigned)) {
    return absl::PermissionDeniedError(absl::StrCat(
        "Assigned.secret does not prove that micro-batches ",
        assigned.leaf_begin(), " to ", assigned.leaf_end(), " (chunks ",
        assigned.chunk_begin(), " to ", assigned.chunk_end(),
        ") are assigned to the worker: copy the fields of its Deal"));
  }
  assignments_.Add(assigned, NewestPossibleStep(*engine_));
  return absl::OkStatus();
}

absl::Status ExchangeSession::OnMemoryAnswer(const MemoryAnswer& answer) {
  if (subscribed_ || (answer.device_mapped() && !memory_.on_device())) {
    return absl::FailedPreconditionError("MemoryAnswer without an offer");
  }
  subscribed_ = true;
  if (answer.device_mapped()) {
    engine_->Subscribe(this, MemoryPlace::kDevice, chunks_);
    return absl::OkStatus();
  }
  memory_.LeaveDevice();
  engine_->Subscribe(
      this, answer.mapped() ? MemoryPlace::kShared : MemoryPlace::kHost,
      chunks_);
  return absl::OkStatus();
}

absl::Status ExchangeSession::OnFetch(const Fetch& fetch) {
  if (requests_ == nullptr) {
    return absl::FailedPreconditionError("Fetch without Hello.fetches");
  }
  for (const int chunk : fetch.chunk()) {
    TRIBUTARY_RETURN_IF_ERROR(engine_->CheckChunk(chunk));
    if (!requests_->Request(chunk, fetch.version())) continue;
    const absl::StatusOr<WeightsVersion> weights =
        engine_->Read(chunk, fetch.version(), WeightsForm::kEncoded);
    // A newer version has replaced it, of which a notice is under way.
    if (absl::IsFailedPrecondition(weights.status())) continue;
    TRIBUTARY_RETURN_IF_ERROR(weights.status());
    // Only one answer waits to be sent.
    stream_->Drop(WritePriority(fetch.version(), chunk));
    SendWhole(fetch.version(), chunk, weights->values);
  }
  return absl::OkStatus();
}

}  // namespace tributary
