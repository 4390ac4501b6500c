#include "tests/simulation/processes/replicas.h"

#include <utility>

#include "common/base/status_macros.h"
#include "common/stream/replica_reader.h"
#include "common/stream/replica_stream.h"
#include "server/replication/replica_session.h"
#include "tests/simulation/processes/server_network.h"
#include "tests/simulation/world/client_stream.h"

namespace tributary::simulation {
namespace {

constexpr absl::Duration kConnectTimeout = absl::Seconds(20);

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

void Replicas::Read(const ReplicaStore* memory,
                    const std::shared_ptr<ReplicaReads>& reads,
                    const std::shared_ptr<Link>& link) {
  calls_.Accept<ReadJournalRequest, JournalMessage>(
      link,
      [&](ServerStream<JournalMessage>* stream) {
        return std::make_unique<ReplicaReadSession>(memory, reads, stream);
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
  // The call belongs to the process, because the end of the attempt does not
  // cancel it.
  const std::shared_ptr<Life> process = scope_->root()->shared_from_this();
  TRIBUTARY_ASSIGN_OR_RETURN(
      std::shared_ptr<Link> link,
      world_->AwaitConnection(
          process,
          [world = world_, shard = ShardAt(address)] {
            return world->servers[static_cast<size_t>(shard)];
          },
          Service::kReadReplica, /*deadline=*/world_->loop.now(),
          [] { return false; }));
  return ReceiveReplica(
      std::make_unique<
          SimulatedClientStream<JournalMessage, ReadJournalRequest>>(
          world_, process, std::move(link)),
      address, request, snapshot);
}

}  // namespace tributary::simulation
