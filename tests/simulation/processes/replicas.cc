#include "tests/simulation/processes/replicas.h"

#include <utility>

#include "common/base/status_macros.h"
#include "common/stream/replica_stream.h"
#include "server/replication/replica_session.h"
#include "tests/simulation/processes/server_network.h"
#include "tests/simulation/world/client_stream.h"

namespace tributary::simulation {
namespace {

constexpr absl::Duration kConnectTimeout = absl::Seconds(20);

// Sends the saved state that a worker requests.
class ReaderSession final
    : public ServerSession<ReadJournalRequest, JournalMessage> {
 public:
  // Refuses the request if `memory` is null.
  ReaderSession(const ReplicaStore* memory,
                ServerStream<JournalMessage>* stream)
      : memory_(memory), stream_(stream) {}

  void OnMessage(const ReadJournalRequest& request, ReceivedPayload) override {
    stream_->Close(Answer(request));
  }
  void OnEnd() override {}
  void OnGone() override {}

 private:
  absl::Status Answer(const ReadJournalRequest& request) {
    if (memory_ == nullptr) return ReplicasNotServed();
    TRIBUTARY_RETURN_IF_ERROR(memory_->CheckScope(request.scope()));
    TRIBUTARY_ASSIGN_OR_RETURN(
        const Snapshot held, memory_->Find(request.shard(), request.version()));
    for (const Snapshot::Chunk& chunk : held.chunks) {
      for (size_t array = 0; array <= chunk.slots.size(); ++array) {
        ReplicaPart part(held.version, chunk, static_cast<int>(array));
        stream_->Send(part.message, std::move(part.payload), /*priority=*/0);
      }
    }
    return absl::OkStatus();
  }

  const ReplicaStore* const memory_;
  ServerStream<JournalMessage>* const stream_;
};

}  // namespace

Replicas::Replicas(World* world, int shard, std::shared_ptr<Life> scope,
                   ReplicaStore* memory)
    : world_(world),
      shard_(shard),
      scope_(scope),
      memory_(memory),
      calls_(world, std::move(scope)) {}

void Replicas::Keep(int64_t attempt, const std::shared_ptr<Link>& link) {
  calls_.Accept<JournalMessage, JournalAnswer>(
      link,
      [this, attempt](ServerStream<JournalAnswer>* stream) {
        return std::make_unique<ReplicaSession>(shard_, attempt, memory_,
                                                stream);
      },
      [](const absl::Status&) {});
}

void Replicas::AcceptRead(const std::shared_ptr<Link>& link) {
  calls_.Accept<ReadJournalRequest, JournalMessage>(
      link,
      [this](ServerStream<JournalMessage>* stream) {
        return std::make_unique<ReaderSession>(
            workers_attempt_ == 0 ? nullptr : memory_, stream);
      },
      [](const absl::Status&) {});
}

std::unique_ptr<ReplicaStream> Replicas::Open(
    const std::string& address, const JournalHello& hello,
    std::function<void(const absl::Status&)> lost) {
  using Stream = SimulatedClientStream<JournalAnswer, JournalMessage>;
  return StartReplicaStream(
      std::make_unique<Stream>(
          world_, scope_,
          [this, shard = ShardAt(address)](Stream::Connected done) {
            world_->Connect(
                scope_,
                [world = world_, shard] { return world->servers[shard]; },
                Service::kReplica, world_->loop.now() + kConnectTimeout,
                std::move(done));
          }),
      address, hello, std::move(lost));
}

absl::Status Replicas::Fetch(const std::string& address,
                             const ReadJournalRequest& request,
                             Snapshot* snapshot) {
  const Process* const from =
      world_->servers[static_cast<size_t>(ShardAt(address))];
  if (!world_->Reaches(scope_->process, *from) ||
      from->life()->paused_until > world_->loop.now()) {
    return absl::UnavailableError("the holder is not to be reached");
  }
  const ReplicaStore* const memory = from->replicas();
  TRIBUTARY_RETURN_IF_ERROR(memory->CheckScope(request.scope()));
  TRIBUTARY_ASSIGN_OR_RETURN(const Snapshot held,
                             memory->Find(request.shard(), request.version()));
  CopySnapshot(held, snapshot);
  return absl::OkStatus();
}

}  // namespace tributary::simulation
