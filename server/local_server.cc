#include "server/local_server.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/parameter_table.h"
#include "common/process.h"
#include "common/rounds.h"
#include "common/status_macros.h"
#include "common/thread_pool.h"
#include "server/checkpoint/manifest.h"
#include "server/checkpoint/shard_files.h"

namespace tributary {

LocalServer::LocalServer(int shard, Executors executors, FileSystem* files,
                         WeightsService* service,
                         std::function<void(const ServerReport&)> report)
    : shard_(shard),
      files_(files),
      service_(service),
      report_(std::move(report)),
      writer_(executors.writer.get()),
      pool_(executors.pool.get()),
      executors_(std::move(executors)) {}

LocalServer::LocalServer(int shard, int threads, WeightsService* service,
                         std::function<void(const ServerReport&)> report)
    : LocalServer(shard,
                  {std::make_unique<ThreadPool>(1),
                   std::make_unique<ThreadPool>(threads)},
                  FileSystem::Posix(), service, std::move(report)) {}

ParameterStore* LocalServer::store() const {
  absl::MutexLock lock(&mu_);
  return store_.get();
}

absl::Status LocalServer::Handle(const ServerOrder& order) {
  switch (order.order_case()) {
    case ServerOrder::kConfigure:
      // On the pool, because the coordinator gives its own server orders with
      // its lock held.
      pool_->Run([this, configure = order.configure()] {
        const absl::Status status = OnConfigure(configure);
        ServerReport report;
        if (status.ok()) {
          report.mutable_configured();
        } else {
          report.mutable_failure()->set_message(std::string(status.message()));
          report.mutable_failure()->set_exit_code(1);
          report.mutable_failure()->set_checkpoint_damaged(
              absl::IsDataLoss(status) || absl::IsNotFound(status));
        }
        report_(report);
      });
      return absl::OkStatus();
    case ServerOrder::kNorm: {
      ParameterStore* const target = store();
      if (target == nullptr) {
        return absl::FailedPreconditionError("a norm before the table");
      }
      target->SetGradientNorm(order.norm().step(), order.norm().norm());
      return absl::OkStatus();
    }
    case ServerOrder::kSnapshot:
      return OnSnapshot(order.snapshot());
    case ServerOrder::kFinish:
      return absl::OkStatus();
    case ServerOrder::ORDER_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("unexpected order to a server");
}

absl::Status LocalServer::OnConfigure(const Configure& configure) {
  if (store() != nullptr) {
    return absl::FailedPreconditionError("configured twice");
  }
  TRIBUTARY_ASSIGN_OR_RETURN(ArenaLayout layout,
                             ArenaLayout::Create(configure.table()));
  ParameterStore::Options options;
  options.job = JobOfRounds(configure.job());
  options.steps = Rounds(configure.job(), configure.steps()).count();
  options.shard = shard_;
  options.servers = configure.servers();
  options.attempt = configure.attempt();
  CheckpointManifest manifest;
  if (!configure.checkpoint().empty()) {
    TRIBUTARY_ASSIGN_OR_RETURN(manifest, ReadManifest(configure.checkpoint()));
    options.first_version = manifest.version();
  }
  TRIBUTARY_ASSIGN_OR_RETURN(
      std::unique_ptr<ParameterStore> store,
      ParameterStore::Create(
          options, std::move(layout), pool_, [this](const StepSums& sums) {
            ServerReport report;
            *report.mutable_sums() = sums;
            service_->TakeArrivals(sums.step(), report.mutable_sums());
            report_(report);
          }));
  if (!configure.checkpoint().empty()) {
    Snapshot snapshot = store->BlankSnapshot();
    TRIBUTARY_RETURN_IF_ERROR(ReadShard(configure.checkpoint(), manifest,
                                        store->layout(), &snapshot));
    store->Restore(std::move(snapshot));
  }
  absl::MutexLock lock(&mu_);
  store_ = std::move(store);
  servers_ = configure.servers();
  service_->Serve(store_.get(), configure.job_id(), configure.attempt());
  return absl::OkStatus();
}

absl::Status LocalServer::OnSnapshot(const TakeSnapshot& order) {
  ParameterStore* const from = store();
  if (from == nullptr) {
    return absl::FailedPreconditionError("a snapshot before the table");
  }
  const int64_t version = order.version();
  // Copying may take a while: not on the caller's thread.
  writer_->Run([this, from, version, folder = order.folder()] {
    const bool taken = from->TakeSnapshot(version, [this,
                                                    folder](Snapshot snapshot) {
      ReportSnapshot(snapshot.version, SnapshotReport::TAKEN);
      writer_->Run([this, folder,
                    taken = std::make_shared<Snapshot>(std::move(snapshot))] {
        WriteSnapshot(folder, *taken);
      });
    });
    if (!taken) ReportSnapshot(version, SnapshotReport::PASSED);
  });
  return absl::OkStatus();
}

void LocalServer::WriteSnapshot(const std::string& folder,
                                const Snapshot& snapshot) {
  ShardFiles files;
  files.shard = shard_;
  {
    absl::MutexLock lock(&mu_);
    files.layout = &store_->layout();
    files.servers = servers_;
    files.state = store_->slot_names();
  }
  const absl::StatusOr<std::vector<CheckpointFile>> written =
      WriteShardFiles(files, snapshot, folder, files_);
  if (written.ok()) {
    ReportSnapshot(snapshot.version, SnapshotReport::WRITTEN, "", *written);
  } else {
    ReportSnapshot(snapshot.version, SnapshotReport::FAILED,
                   std::string(written.status().message()));
  }
}

void LocalServer::ReportSnapshot(int64_t version,
                                 SnapshotReport::Outcome outcome,
                                 const std::string& message,
                                 const std::vector<CheckpointFile>& files) {
  ServerReport report;
  SnapshotReport* const snapshot = report.mutable_snapshot();
  snapshot->set_version(version);
  snapshot->set_outcome(outcome);
  snapshot->set_message(message);
  for (const CheckpointFile& file : files) *snapshot->add_file() = file;
  report_(report);
}

ProcessStatistics LocalServer::Statistics() const {
  ProcessStatistics statistics;
  service_->CountBytes(&statistics);
  statistics.set_peak_memory_bytes(PeakMemoryBytes());
  statistics.set_cpu_seconds(CpuSeconds());
  return statistics;
}

}  // namespace tributary
