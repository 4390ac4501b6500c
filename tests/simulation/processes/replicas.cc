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

}  // namespace

Replicas::Replicas(World* world, int shard, std::shared_ptr<Life> scope,
                   ReplicaStore* memory)
    : world_(world),
      shard_(shard),
      scope_(scope),
      memory_(memory),
      calls_(world, std::move(scope)) {}

void Replicas::Accept(const std::shared_ptr<Link>& link) {
  calls_.Accept<JournalMessage, JournalAnswer>(
      link,
      [this](ServerStream<JournalAnswer>* stream) {
        return std::make_unique<ReplicaSession>(shard_, attempt_, memory_,
                                                stream);
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
