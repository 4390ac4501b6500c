// The part of a simulated worker's stay that exchanges messages with servers.
#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/codec/encoding.h"
#include "tests/simulation/processes/worker_stay.h"
#include "tests/simulation/world/tiny_model.h"

namespace tributary::simulation {
namespace {

constexpr absl::Duration kExchangeTimeout = absl::Seconds(60);

// The same as in ParameterServerExchange.
int64_t WritePriority(int64_t step, int chunk) {
  return (step + 1) << 24 | chunk;
}

}  // namespace

void WorkerStay::ConnectNext() {
  if (ending_) return;
  if (!state_->status().ok()) {
    End(state_->status());
    return;
  }
  size_t shard = 0;
  while (shard < streams_.size() && streams_[shard].link != nullptr) ++shard;
  if (shard == streams_.size()) {
    phase_ = "connected";
    training_ = true;
    Poke();
    return;
  }
  const int number = static_cast<int>(shard);
  world_->Connect(
      scope_, [world = world_, shard] { return world->servers[shard]; },
      Service::kExchange, world_->loop.now() + kExchangeTimeout,
      [this, number](absl::StatusOr<std::shared_ptr<Link>> link) {
        if (ending_) {
          if (link.ok()) (*link)->Cancel();
          return;
        }
        if (!link.ok()) {
          End(link.status());
          return;
        }
        Stream& stream = streams_[static_cast<size_t>(number)];
        stream.link = *link;
        Link::Handlers handlers;
        handlers.message = [this, number](const Link::Message& message) {
          OnServerMessage(number, static_cast<const ServerMessage&>(message));
        };
        handlers.gone = [this, number](const absl::Status& status) {
          streams_[static_cast<size_t>(number)].gone = true;
          if (finishing_) {
            Finish();
          } else if (!ending_) {
            Fail(status.ok() ? absl::UnavailableError("lost a server")
                             : status);
          }
        };
        stream.link->SetHandlers(Link::kClient, std::move(handlers));
        WorkerMessage hello;
        hello.mutable_hello()->set_incarnation(admission_->incarnation());
        hello.mutable_hello()->set_attempt(admission_->attempt());
        hello.mutable_hello()->set_job_id(admission_->job_id());
        hello.mutable_hello()->set_signature(world_->layout.signature());
        stream.link->Send(Link::kClient, hello);
        ConnectNext();
      });
}

void WorkerStay::OnServerMessage(int shard, const ServerMessage& message) {
  if (ending_) return;
  Stream& stream = streams_[static_cast<size_t>(shard)];
  if (!stream.parked.empty() || !Handle(message)) {
    stream.parked.push_back(message);
  }
  Poke();
}

void WorkerStay::RetryParked() {
  for (Stream& stream : streams_) {
    while (!stream.parked.empty() && Handle(stream.parked.front())) {
      stream.parked.pop_front();
    }
  }
}

// Returns false if the weights' buffer is being read.
bool WorkerStay::Handle(const ServerMessage& message) {
  if (message.has_outcome()) {
    --unanswered_[static_cast<size_t>(message.outcome().chunk())];
    state_->SetOutcome(message.outcome());
    return true;
  }
  if (!message.has_weights()) return true;
  const Weights& weights = message.weights();
  float* to = nullptr;
  switch (state_->BeginWrite(weights.chunk(), weights.version(), &to)) {
    case WorkState::Arrival::kPark:
      return false;
    case WorkState::Arrival::kDrop:
      return true;
    case WorkState::Arrival::kWrite:
      break;
  }
  std::memcpy(to, weights.payload().data(), weights.payload().size());
  state_->EndWrite(weights.chunk(), weights.version());
  versions_[weights.version() % 2][static_cast<size_t>(weights.chunk())] =
      weights.version();
  return true;
}

void WorkerStay::PushInitial() {
  const Buffer arena = arenas_.Take();
  const ArenaLayout& layout = world_->layout;
  InitialWeights(admission_->job(), layout, arena.get());
  for (int chunk = 0; chunk < layout.chunk_count(); ++chunk) {
    WorkerMessage message;
    message.mutable_initial()->set_chunk(chunk);
    message.mutable_initial()->set_payload(
        reinterpret_cast<const char*>(arena.get() + layout.ChunkBegin(chunk)),
        static_cast<size_t>(PayloadBytes(FLOAT32, layout.ChunkSize(chunk))));
    Queue(ArenaLayout::ShardOf(chunk, static_cast<int>(streams_.size())),
          /*priority=*/0, std::move(message));
  }
}

void WorkerStay::Push(int64_t step, const NodeChunk& sum) {
  const ArenaLayout& layout = world_->layout;
  WorkerMessage message;
  Contribution* const c = message.mutable_contribution();
  c->set_step(step);
  c->set_chunk(sum.chunk);
  c->set_node(sum.node);
  c->set_weight(sum.sample_count);
  if (sum.chunk == 0) c->set_loss_sum(sum.loss_sum);
  c->set_base_version(sum.base_version);
  c->set_gradient_norm(sum.gradient_norm);
  c->set_payload(
      reinterpret_cast<const char*>(sum.arena.get() +
                                    layout.ChunkBegin(sum.chunk)),
      static_cast<size_t>(PayloadBytes(FLOAT32, layout.ChunkSize(sum.chunk))));
  Queue(ArenaLayout::ShardOf(sum.chunk, static_cast<int>(streams_.size())),
        WritePriority(step, sum.chunk), std::move(message));
}

void WorkerStay::Queue(int shard, int64_t priority, WorkerMessage message) {
  Stream& stream = streams_[static_cast<size_t>(shard)];
  stream.queue.emplace(priority, std::move(message));
  if (std::exchange(stream.flushing, true)) return;
  world_->loop.After(
      world_->random.Between(absl::Microseconds(1), absl::Microseconds(500)),
      scope_, "-flush", [this, shard] { Flush(shard); });
}

// Repeats and reorders some messages, which must not change the result. In
// asynchronous mode nothing is repeated, because each contribution has one
// outcome.
void WorkerStay::Flush(int shard) {
  Stream& stream = streams_[static_cast<size_t>(shard)];
  stream.flushing = false;
  std::vector<WorkerMessage> messages;
  for (auto& [priority, message] : stream.queue) {
    messages.push_back(std::move(message));
  }
  stream.queue.clear();
  const Scenario& scenario = world_->scenario;
  Random* const random = &world_->random;
  if (random->Chance(scenario.reordered)) {
    ++world_->injected["reordered"];
    for (size_t i = messages.size(); i > 1; --i) {
      std::swap(messages[i - 1], messages[static_cast<size_t>(random->Uniform(
                                     0, static_cast<int64_t>(i) - 1))]);
    }
  }
  for (const WorkerMessage& message : messages) {
    stream.link->Send(Link::kClient, message);
    if (scenario.asynchronous() || !random->Chance(scenario.repeated)) continue;
    ++world_->injected["repeated"];
    world_->loop.After(
        random->Between(absl::ZeroDuration(), absl::Milliseconds(500)), scope_,
        "-repeat",
        [link = stream.link, message] { link->Send(Link::kClient, message); });
  }
}

void WorkerStay::Finish() {
  if (!std::exchange(finishing_, true)) {
    phase_ = "finishing";
    for (size_t shard = 0; shard < streams_.size(); ++shard) {
      if (streams_[shard].gone) continue;
      Flush(static_cast<int>(shard));
      streams_[shard].link->HalfClose();
    }
  }
  if (!std::all_of(streams_.begin(), streams_.end(),
                   [](const Stream& stream) { return stream.gone; })) {
    return;
  }
  WorkerReport farewell;
  farewell.mutable_farewell();
  Report(farewell);
  End(absl::OkStatus());
}

}  // namespace tributary::simulation
