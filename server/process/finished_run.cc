#include "server/process/finished_run.h"

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/cleanup/cleanup.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/json.h"
#include "common/base/monotonic_clock.h"
#include "common/base/status_macros.h"
#include "common/job/job.h"
#include "common/os/file.h"
#include "common/text/counted.h"
#include "common/transport/channel.h"
#include "proto/rendezvous.pb.h"
#include "server/checkpoint/final_folder.h"
#include "server/checkpoint/manifest.h"
#include "server/coordinator/coordinator.h"
#include "server/process/conclusion.h"
#include "server/process/resume_check.h"
#include "server/process/server_network.h"
#include "server/records/run_records.h"
#include "server/replication/replica_store.h"

namespace tributary {
namespace {

constexpr int64_t kMaxSummaryBytes = 16 << 20;
constexpr absl::Duration kFinishedTick = absl::Milliseconds(100);

// Receives the orders for server 0, which holds no part of the model.
class IdleServer final : public ServerLink {
 public:
  void Send(const ServerOrder&) override {}
  void Close(const absl::Status&) override {}
};

// Returns true if summary.json states that the job is done after `steps`. It is
// written last; that of fewer steps is of a run that was then continued.
bool HasSummary(const std::string& output_directory, int64_t steps) {
  const absl::StatusOr<std::string> text = ReadFile(
      absl::StrCat(output_directory, "/summary.json"), kMaxSummaryBytes);
  if (!text.ok()) return false;
  const nlohmann::json summary = ParseJson(*text);
  if (!summary.is_object()) return false;
  const auto status = summary.find("status");
  const auto done = summary.find("steps");
  return status != summary.end() && *status == "done" &&
         done != summary.end() && *done == steps;
}

Coordinator::Options OptionsOf(const ServerOptions& options,
                               const ResumePoint& finished) {
  Coordinator::Options job;
  job.job = options.job;
  job.servers = options.servers;
  job.expected_workers = options.expected_workers;
  job.most_workers = options.most_workers;
  job.max_workers = options.limits.workers;
  job.lease = options.lease;
  job.no_server_timeout = options.no_server_timeout;
  job.resume = finished;
  return job;
}

}  // namespace

std::optional<ResumePoint> FindFinishedRun(
    const JobSpec& job, const std::string& output_directory) {
  const std::string folder = FinalFolder(output_directory);
  absl::StatusOr<CheckpointManifest> manifest = ReadManifest(folder);
  if (!manifest.ok() || !manifest->complete() || !IsOfJob(*manifest, job) ||
      !HasSummary(output_directory, manifest->step()) ||
      !VerifyFinalFolder(folder).ok()) {
    return std::nullopt;
  }
  return ResumePoint{folder, *std::move(manifest)};
}

absl::Status ServeFinishedRun(const ServerOptions& options,
                              const ResumePoint& finished, Shutdown* shutdown) {
  options.log->Info(
      "%s is already done, after %s; nothing is computed or changed, and "
      "workers that come within %s are told so",
      options.output_directory, Counted(finished.manifest.step(), "step"),
      absl::FormatDuration(options.start_timeout));
  RunRecords records({[&options] { return options.make_executor(1); },
                      [](const JobEvent&) {}});
  records.Begin({"", options.job.name(), PrintJob(options.job),
                 options.output_directory});
  std::unique_ptr<ServerNetwork> grpc;
  if (options.network == nullptr) grpc = MakeGrpcServerNetwork(options);
  ServerNetwork* const network = grpc != nullptr ? grpc.get() : options.network;
  ReplicaStore replicas;
  Coordinator coordinator(OptionsOf(options, finished), &MonotonicNow,
                          [](const std::string&) {});
  const std::unique_ptr<AttemptServices> services =
      network->MakeServices(&coordinator, &records, &replicas);
  const absl::Cleanup end_calls = [&services] {
    services->ShutDown(absl::ZeroDuration());
  };
  IdleServer link;
  Enlist enlist;
  enlist.set_protocol_version(kProtocolVersion);
  *enlist.mutable_local_address() = services->local_address();
  SetIdentity(options, &enlist);
  TRIBUTARY_RETURN_IF_ERROR(coordinator.AddServer(enlist, &link));
  TRIBUTARY_ASSIGN_OR_RETURN(const std::string address, services->Listen());
  if (options.on_listening) options.on_listening(address);
  options.log->Info("coordinator listens on %s", address);
  services->SetReady(true);

  const auto all_told = [&] {
    return coordinator.GetStatus().phase() == StatusReply::FINISHING &&
           coordinator.Facts().workers_told_done >= options.expected_workers;
  };
  ServerReport alive;
  alive.mutable_heartbeat();
  const absl::Time deadline = MonotonicNow() + options.start_timeout;
  while (!all_told() && MonotonicNow() < deadline &&
         !shutdown->AwaitRequest(kFinishedTick)) {
    (void)coordinator.OnServerReport(/*shard=*/0, alive);
    coordinator.Tick();
  }
  services->SetReady(false);
  coordinator.FinishServers();
  coordinator.ServerGone(0);
  (void)coordinator.AwaitServersGone(kDrainTimeout);
  services->ShutDown(kDrainTimeout);
  return absl::OkStatus();
}

}  // namespace tributary
