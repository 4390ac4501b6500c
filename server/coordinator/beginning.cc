#include "server/coordinator/beginning.h"

#include <optional>
#include <utility>

#include "common/base/status_macros.h"
#include "common/job/exchange_traits.h"
#include "common/job/rounds.h"
#include "common/parameters/arena_layout.h"
#include "server/coordinator/attempt.h"
#include "server/membership/member_secrets.h"
#include "server/membership/peer_checks.h"
#include "server/replication/replica_store.h"

namespace tributary {
namespace {

JournalScope ScopeOf(const AttemptOptions& options, const Ready& ready,
                     size_t servers) {
  JournalScope scope;
  scope.set_job_id(JobId(options.job));
  scope.set_signature(ArenaLayout::Create(ready.table())->signature());
  scope.set_servers(static_cast<int>(servers));
  scope.set_run(options.run);
  scope.set_data(ready.data().fingerprint());
  return scope;
}

std::optional<ReplicaPoint> InMemory(
    const AttemptOptions& options, const Ready& ready,
    const ArenaLayout& layout,
    const std::vector<ServerRoster::Server>& servers) {
  if (!options.job.recovery().journal() || !options.resume_from_memory) {
    return std::nullopt;
  }
  std::vector<std::optional<JournalHoldings>> holdings;
  for (const ServerRoster::Server& server : servers) {
    holdings.push_back(server.replicas);
  }
  return NewestInMemory(holdings, ScopeOf(options, ready, servers.size()),
                        layout, options.job.has_sparse());
}

}  // namespace

CoordinatorOrder OpenOrder(const ServerOrder& configure,
                           const Beginning& beginning) {
  CoordinatorOrder order;
  Open* const open = order.mutable_open();
  open->set_version(beginning.version);
  *open->mutable_scope() = configure.configure().journal_scope();
  return order;
}

absl::StatusOr<Beginning> ChooseBeginning(
    const AttemptOptions& options, const Ready& ready,
    const std::vector<ServerRoster::Server>& servers) {
  TRIBUTARY_ASSIGN_OR_RETURN(const ArenaLayout layout,
                             ArenaLayout::Create(ready.table()));
  Beginning beginning;
  if (options.resume.has_value()) {
    const CheckpointManifest& manifest = options.resume->manifest;
    TRIBUTARY_RETURN_IF_ERROR(CheckResume(manifest, ready, options.job));
    beginning.version = beginning.saved_version = manifest.version();
    beginning.job_state = manifest.job_state();
    beginning.checkpoint = options.resume->folder;
  }
  std::optional<ReplicaPoint> memory =
      InMemory(options, ready, layout, servers);
  if (memory.has_value() && memory->version > beginning.version) {
    beginning.version = memory->version;
    beginning.job_state = std::move(memory->job_state);
    beginning.checkpoint.clear();
    beginning.holders = std::move(memory->holders);
    beginning.stored = std::move(memory->stored);
  }
  beginning.step =
      Rounds(options.job, ready.data().steps()).StepsAfter(beginning.version);
  return beginning;
}

CoordinatorOrder AdmissionOrder(
    const AttemptOptions& options,
    const std::vector<ServerRoster::Server>& servers, const Member& member,
    bool measures_layers) {
  CoordinatorOrder order;
  Admission* admission = order.mutable_admission();
  *admission->mutable_job() = options.job;
  admission->set_rank(member.rank);
  admission->set_incarnation(member.incarnation);
  for (const ServerRoster::Server& server : servers) {
    admission->add_server_address(server.address);
    *admission->add_local_address() = server.local_address;
  }
  admission->set_job_id(JobId(options.job));
  admission->set_lease_ms(absl::ToInt64Milliseconds(options.lease));
  admission->set_attempt(options.attempt);
  admission->set_workers(options.expected_workers);
  admission->set_measures_layers(measures_layers);
  admission->set_secret(
      MemberSecrets(options.secret_key).OfMember(member.incarnation));
  return order;
}

ServerOrder ConfigureOrder(const AttemptOptions& options, const Ready& ready,
                           const Beginning& beginning,
                           const std::vector<ServerRoster::Server>& servers,
                           int shard) {
  ServerOrder order;
  Configure* const configure = order.mutable_configure();
  *configure->mutable_job() = options.job;
  *configure->mutable_table() = ready.table();
  configure->set_servers(static_cast<int>(servers.size()));
  configure->set_job_id(JobId(options.job));
  configure->set_steps(ready.data().steps());
  configure->set_train_samples(ready.data().train_samples());
  configure->set_attempt(options.attempt);
  configure->set_secret_key(options.secret_key);
  configure->set_checkpoint(beginning.checkpoint);
  if (ResolveExchange(options.job).servers_hold_replicas) {
    *configure->mutable_journal_scope() =
        ScopeOf(options, ready, servers.size());
  }
  if (!beginning.holders.empty()) {
    const int holder = beginning.holders[shard];
    JournalStart* const start = configure->mutable_journal();
    start->set_version(beginning.version);
    start->set_holder(holder);
    start->set_address(servers[holder].address);
    *start->mutable_job_state() = beginning.job_state;
  }
  return order;
}

ServerOrder ReplicateOrder(const std::vector<ServerRoster::Server>& servers,
                           int shard, const std::vector<bool>& stored) {
  ServerOrder order;
  order.mutable_replicate()->set_address(
      servers[ReplicaHolderOf(shard, static_cast<int>(servers.size()))]
          .address);
  order.mutable_replicate()->set_stored(!stored.empty() && stored[shard]);
  return order;
}

}  // namespace tributary
