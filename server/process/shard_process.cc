#include "server/process/shard_process.h"

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/base/backoff.h"
#include "common/base/failpoint.h"
#include "common/base/monotonic_clock.h"
#include "common/base/pulse.h"
#include "common/base/status_macros.h"
#include "common/os/logger.h"
#include "common/transport/channel.h"
#include "server/process/conclusion.h"
#include "server/process/local_server.h"
#include "server/process/server_network.h"
#include "server/replication/replica_store.h"
#include "server/service/enlistment.h"

namespace tributary {
namespace {

constexpr absl::Duration kConnectTimeout = absl::Seconds(60);
constexpr absl::Duration kHeartbeat = absl::Milliseconds(500);
// Time for the coordinator to notice that this server's previous connection is
// closed.
constexpr absl::Duration kOldSelfTimeout = absl::Seconds(30);
// Longest time that a coordinator still answers after it has stopped the job.
constexpr absl::Duration kStopTime = absl::Seconds(30);

// What is known about this server's part in the job.
struct ShardFacts {
  bool enlisted = false;  // The coordinator was reached.
  bool over = false;      // The job was stopped.
  // The coordinator has sent an order in this attempt, so it accepts this
  // server. Set by the thread that receives orders.
  std::atomic<bool> accepted = false;
};

// Runs one attempt of the job. Returns OK when the job is done.
absl::Status RunShardAttempt(const ServerOptions& options, Shutdown* shutdown,
                             ServerNetwork* network, ReplicaStore* replicas,
                             absl::Duration connect_timeout,
                             ShardFacts* facts) {
  const std::unique_ptr<AttemptServices> services = network->MakeServices(
      /*coordinator=*/nullptr, /*records=*/nullptr, replicas);
  std::unique_ptr<Enlistment> enlistment;
  LocalServer local(
      options.shard,
      {options.make_executor(1), options.make_executor(options.threads)},
      options.files, services->weights(),
      [&enlistment](const ServerReport& report) { enlistment->Send(report); });
  const MetricsRegistry::Registration metrics = MetricsRegistry::Add(
      options.metrics, [&local](MetricsPage* page) { local.AddMetrics(page); });
  enlistment = std::make_unique<Enlistment>([&](const ServerOrder& order) {
    facts->accepted = true;
    TRIBUTARY_RETURN_IF_ERROR(local.Handle(order));
    if (order.has_finish()) {
      local.FinishTrace();
      ServerReport report;
      *report.mutable_farewell()->mutable_statistics() = local.Statistics();
      enlistment->Send(report);
      enlistment->HalfClose();
    }
    return absl::OkStatus();
  });
  local.UsePasses(options.make_passes);
  local.UseReplicas(replicas, services->replicas());
  // Calls use the engine of `local`.
  const absl::Cleanup end_calls = [&services] {
    services->ShutDown(absl::ZeroDuration());
  };
  Enlist enlist;
  enlist.set_protocol_version(kProtocolVersion);
  if (auto holdings = replicas->Holdings()) {
    *enlist.mutable_journal() = *std::move(holdings);
  }
  TRIBUTARY_RETURN_IF_ERROR(Failpoint("S1"));
  enlist.set_shard(options.shard);
  SetIdentity(options, &enlist);
  *enlist.mutable_local_address() = services->local_address();
  TRIBUTARY_ASSIGN_OR_RETURN(const std::string address, services->Listen());
  enlist.set_address(address);
  if (options.on_listening) options.on_listening(address);
  options.log->Info("server %d listens on %s", options.shard, address);
  TRIBUTARY_ASSIGN_OR_RETURN(
      std::unique_ptr<EnlistmentStream> stream,
      network->ConnectToCoordinator(
          connect_timeout, [shutdown] { return shutdown->requested(); }));
  enlistment->Begin(std::move(stream), enlist);
  facts->enlisted = true;
  services->SetReady(true);
  const Pulse pulse(kHeartbeat, [&, noticed = false]() mutable {
    const ServerReport heartbeat = local.Heartbeat();
    if (heartbeat.heartbeat().version() >= 0 && !std::exchange(noticed, true)) {
      options.log->Notify(kStepNotice);
    }
    enlistment->Send(heartbeat);
    local.BeatTrace();
  });
  // After this report the coordinator writes a checkpoint and ends the attempt.
  const Shutdown::Registration leaving = shutdown->OnRequest([&enlistment] {
    ServerReport report;
    report.mutable_leaving();
    enlistment->Send(report);
  });
  const absl::Status ended = enlistment->AwaitDone();
  local.replicator()->End();
  services->ShutDown(enlistment->finished() ? DrainTimeout(*shutdown)
                                            : kCutTimeout);
  if (enlistment->stopped()) {
    facts->over = true;
    return absl::CancelledError("the job was stopped");
  }
  if (enlistment->finished()) return absl::OkStatus();
  if (shutdown->requested()) return absl::CancelledError("stopped by request");
  if (ended.ok()) {
    return absl::UnavailableError(
        absl::StrCat("the coordinator at ", options.coordinator,
                     " ended the connection before the job was done"));
  }
  return absl::Status(
      ended.code(),
      absl::StrCat("coordinator ", options.coordinator, ": ", ended.message()));
}

}  // namespace

absl::Status RunShard(const ServerOptions& options, Shutdown* shutdown) {
  Backoff backoff;
  ReplicaStore replicas;
  ShardFacts facts;
  absl::Time last_seen = MonotonicNow();
  absl::Time last_accepted = absl::InfinitePast();
  absl::Time last_stopped = absl::InfinitePast();
  ServerOptions attempt = options;
  std::unique_ptr<ServerNetwork> grpc;
  if (options.network == nullptr) grpc = MakeGrpcServerNetwork(options);
  ServerNetwork* const network = grpc != nullptr ? grpc.get() : options.network;
  while (true) {
    const absl::Status status = RunShardAttempt(
        attempt, shutdown, network, &replicas,
        facts.enlisted ? options.reconnect_timeout : kConnectTimeout, &facts);
    if (status.ok() || shutdown->requested()) return status;
    if (std::exchange(facts.over, false)) {
      if (!options.await_resume) return status;
      last_stopped = MonotonicNow();
    }
    if (facts.accepted.exchange(false)) last_accepted = MonotonicNow();
    // The coordinator may not have noticed yet that the previous connection is
    // closed, and then refuses a second one.
    const bool in_the_way = absl::IsAlreadyExists(status);
    // A server that was accepted before is refused only until both processes
    // have read the new token.
    const bool token_changes =
        absl::IsUnauthenticated(status) &&
        MonotonicNow() - last_accepted < options.reconnect_timeout;
    // The coordinator that has stopped the job refuses servers until it ends.
    const bool still_ends = absl::IsFailedPrecondition(status) &&
                            MonotonicNow() - last_stopped < kStopTime;
    if (!IsTransient(status) && !in_the_way && !token_changes && !still_ends) {
      return status;
    }
    if (!in_the_way) last_seen = MonotonicNow();
    if (in_the_way && MonotonicNow() - last_seen > kOldSelfTimeout)
      return status;
    if (!facts.enlisted) return status;
    attempt.on_listening = nullptr;
    options.log->Warning("%s; enlisting again", std::string(status.message()));
    if (!backoff.Wait(shutdown)) {
      return absl::CancelledError("stopped by request");
    }
  }
}

}  // namespace tributary
