#include "server/process/local_server.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/job/exchange_traits.h"
#include "common/job/rounds.h"
#include "common/metrics/traffic.h"
#include "common/parameters/arena_layout.h"
#include "common/plan/memory_account.h"
#include "common/update/tables/table_sizes.h"
#include "server/checkpoint/manifest.h"
#include "server/checkpoint/shard_files.h"
#include "server/checkpoint/table_files.h"

namespace tributary {
namespace {

// Returns null if the job traces no steps.
std::unique_ptr<TraceSender> MakeTrace(
    const JobSpec& job, int shard,
    const std::function<void(const ServerReport&)>& report) {
  const std::optional<TracedSteps> steps =
      TracedStepsOf(job, ResolveExchange(job).steps_per_round);
  if (!steps.has_value()) return nullptr;
  auto send = TraceSender::Send::In<ServerReport>(report);
  // The clock of server 0 is the coordinator's.
  if (shard == 0) send.probe = nullptr;
  return std::make_unique<TraceSender>(*steps, std::move(send));
}

// Returns the memory for the rows of the server's tables.
int64_t BytesOfTables(const ProcessStatistics& statistics) {
  int64_t bytes = 0;
  for (const TableSize& table : statistics.table()) bytes += table.bytes();
  return bytes;
}

// Sets the memory that the server needs, as soon as its job is known, and the
// sizes of its tables.
void SetAccount(const UpdateEngine* engine, const JobSpec& job,
                const std::optional<ArenaLayout>& layout,
                const ReplicaStore* replicas, ProcessStatistics* statistics) {
  if (engine == nullptr && !layout.has_value()) return;
  if (engine != nullptr && engine->tables() != nullptr) {
    AddTableSizes(*engine->tables(), statistics);
  }
  // Gradients of more workers wait only if workers are not equally fast.
  constexpr int kWorkers = 2;
  const int64_t copies =
      replicas == nullptr ? 0 : replicas->tables().copy_bytes();
  *statistics->mutable_memory_account() = ServerMemory(
      {engine != nullptr ? engine->job() : job,
       engine != nullptr ? engine->layout().ElementsOf(engine->chunk_numbers())
                         : layout->arena_elements(),
       kWorkers, statistics->shared_bytes_received() > 0,
       BytesOfTables(*statistics) + copies});
}

// Sends what each step changes in the tables, if there are any.
void ReplicateRows(TableEngine* tables, Replicator* replicator) {
  if (tables == nullptr) return;
  tables->SetReplicator([replicator](int64_t version,
                                     const std::vector<BucketRows>& changes,
                                     std::function<void()> kept) {
    replicator->KeepRows(version, changes, std::move(kept));
  });
}

// Reads the chunks and tables (null if the job has none) of `shard`, with which
// the attempt begins, from replicas. This server's own tables are used as they
// are.
absl::Status ReadReplica(int shard, const JournalStart& start,
                         Replicator* replicator, TableEngine* tables,
                         Snapshot* snapshot) {
  ReplicaTarget to;
  to.snapshot = snapshot;
  if (tables != nullptr) {
    if (start.holder() == shard) {
      TRIBUTARY_ASSIGN_OR_RETURN(
          ServerTables own,
          replicator->replicas()->tables().Find(shard, start.version()));
      tables->Adopt(std::move(own));
    } else {
      to.tables = tables->server_tables();
    }
  }
  TRIBUTARY_RETURN_IF_ERROR(replicator->ReadCopies(
      shard, start.version(), start.holder(), start.address(), to));
  // The next checkpoint has no earlier one to add to.
  if (tables != nullptr) tables->ChangeAll();
  return absl::OkStatus();
}

}  // namespace

LocalServer::LocalServer(int shard, Executors executors, FileSystem* files,
                         WeightsService* service,
                         std::function<void(const ServerReport&)> report)
    : shard_(shard),
      files_(files),
      service_(service),
      report_(std::move(report)),
      replicator_(shard, executors.pool.get(), report_),
      snapshots_(files, report_),
      writer_(executors.writer.get()),
      pool_(executors.pool.get()),
      executors_(std::move(executors)) {}

LocalServer::~LocalServer() {
  // The stream's callbacks use the executors, whose tasks use the stream.
  replicator_.End();
}

UpdateEngine* LocalServer::engine() const {
  absl::MutexLock lock(&mu_);
  return engine_.get();
}

absl::Status LocalServer::Handle(const ServerOrder& order) {
  switch (order.order_case()) {
    case ServerOrder::kConfigure:
      // Runs on the pool because the coordinator sends orders to its own server
      // with its lock held.
      pool_->Run([this, configure = order.configure()] {
        const absl::Status status = OnConfigure(configure);
        ServerReport report;
        if (status.ok()) {
          report.mutable_configured();
        } else if (configure.has_journal()) {
          replicator_.ReportFailure(status);
          return;
        } else {
          // Exit code 2 prevents a restart, which does not help if device
          // memory is too small.
          ReportFailure(status, absl::IsResourceExhausted(status) ? 2 : 1);
          return;
        }
        report_(report);
      });
      return absl::OkStatus();
    case ServerOrder::kNorm: {
      UpdateEngine* const target = engine();
      if (target == nullptr) {
        return absl::FailedPreconditionError(
            "a gradient norm before the parameter table");
      }
      if (replicator_.replicas() != nullptr && order.norm().has_job_state()) {
        replicator_.replicas()->AddJobState(order.norm().step() + 1,
                                            order.norm().job_state());
      }
      return target->SetGradientNorm(order.norm().step(), order.norm().norm(),
                                     {order.norm().trust_ratio().begin(),
                                      order.norm().trust_ratio().end()});
    }
    case ServerOrder::kSnapshot:
      return OnSnapshot(order.snapshot());
    case ServerOrder::kReplicate:
      return OnReplicate(order.replicate());
    case ServerOrder::kFinish:
      return absl::OkStatus();
    case ServerOrder::kRevoke:
      if (engine() != nullptr) engine()->Revoke(order.revoke().incarnation());
      return absl::OkStatus();
    case ServerOrder::kClockReading:
      if (trace() != nullptr) trace()->OnReading(order.clock_reading());
      return absl::OkStatus();
    case ServerOrder::ORDER_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("unexpected order to a server");
}

absl::Status LocalServer::OnConfigure(const Configure& configure) {
  if (engine() != nullptr) {
    return absl::FailedPreconditionError("configured twice");
  }
  TRIBUTARY_ASSIGN_OR_RETURN(ArenaLayout layout,
                             ArenaLayout::Create(configure.table()));
  if (!ResolveExchange(configure.job()).servers_update) {
    return ConfigureReplicaHolder(configure, std::move(layout));
  }
  // The inner steps have applied them.
  if (ResolveExchange(configure.job()).local_sgd) {
    layout.ClearLearningRateFactors();
  }
  UpdateEngine::Options options;
  options.job = JobOfRounds(configure.job());
  options.steps = Rounds(configure.job(), configure.steps()).count();
  if (configure.train_samples() > 0) {
    options.sample_counts.emplace(configure.job(), configure.steps(),
                                  configure.train_samples());
  }
  options.shard = shard_;
  options.servers = configure.servers();
  options.attempt = configure.attempt();
  options.make_passes = make_passes_;
  // A restart begins with a new device. The attempt is over for this one. Runs
  // on the pool because the engine may hold a chunk's lock, before which the
  // coordinator acquires its own.
  options.on_failure = [this](const absl::Status& status) {
    pool_->Run([this, status] { ReportFailure(status, /*exit_code=*/1); });
  };
  const bool replicates = configure.job().recovery().journal();
  if (replicates && replicator_.replicas() == nullptr) {
    return absl::UnimplementedError(
        "this server does not support recovery.journal");
  }
  auto sender = MakeTrace(configure.job(), shard_, report_);
  if (sender != nullptr) {
    engine_trace_ = std::make_unique<UpdateTrace>(sender->recorder());
    options.trace = engine_trace_.get();
    absl::MutexLock lock(&mu_);
    trace_ = std::move(sender);
  }
  if (trace() != nullptr) trace()->Begin();
  CheckpointManifest manifest;
  if (configure.has_journal()) {
    options.first_version = configure.journal().version();
  } else if (!configure.checkpoint().empty()) {
    TRIBUTARY_ASSIGN_OR_RETURN(manifest, ReadManifest(configure.checkpoint()));
    options.first_version = manifest.version();
  }
  TRIBUTARY_ASSIGN_OR_RETURN(
      std::unique_ptr<UpdateEngine> engine,
      UpdateEngine::Create(
          options, std::move(layout), pool_, [this](const StepSums& sums) {
            ServerReport report;
            *report.mutable_sums() = sums;
            service_->TakeArrivals(sums.step(), report.mutable_sums());
            report_(report);
          }));
  if (replicates) {
    replicator_.Prepare(configure, engine->layout(),
                        1 + static_cast<int>(engine->slot_names().size()));
    engine->SetReplicator([this](int64_t version, Snapshot::Chunk copy,
                                 std::function<void()> kept) {
      replicator_.Keep(version, std::move(copy), std::move(kept));
    });
    ReplicateRows(engine->tables(), &replicator_);
  }
  if (options.first_version > 0 || !configure.checkpoint().empty()) {
    TRIBUTARY_RETURN_IF_ERROR(Restore(configure, manifest, engine.get()));
  }
  replicator_.Begin(options.first_version,
                    replicates && engine->tables() != nullptr
                        ? engine->tables()->server_tables()
                        : ServerTables());
  EngineCheckpoints::Options checkpoints;
  checkpoints.shard = shard_;
  checkpoints.servers = configure.servers();
  checkpoints.checkpoint = configure.checkpoint();
  checkpoints.manifest = std::move(manifest);
  checkpoints_ = std::make_unique<EngineCheckpoints>(
      std::move(checkpoints), engine.get(), files_, &snapshots_, writer_);
  absl::MutexLock lock(&mu_);
  engine_ = std::move(engine);
  service_->Serve(ServedBy(engine_.get(), configure, report_));
  return absl::OkStatus();
}

TraceSender* LocalServer::trace() const {
  absl::MutexLock lock(&mu_);
  return trace_.get();
}

absl::Status LocalServer::ConfigureReplicaHolder(const Configure& configure,
                                                 ArenaLayout layout) {
  if (replicator_.replicas() == nullptr) {
    return absl::UnimplementedError(
        "this server does not support exchange.all_reduce");
  }
  TRIBUTARY_ASSIGN_OR_RETURN(const std::unique_ptr<Optimizer> optimizer,
                             Optimizer::Create(configure.job().optimizer()));
  replicator_.replicas()->Begin(configure.journal_scope(), layout,
                                1 + optimizer->slots(),
                                /*every_version=*/false);
  replicator_.replicas()->KeepOnly(std::nullopt);
  if (!configure.checkpoint().empty()) {
    TRIBUTARY_ASSIGN_OR_RETURN(const CheckpointManifest manifest,
                               ReadManifest(configure.checkpoint()));
    Snapshot saved =
        MakeSnapshot(layout, layout.ChunksOf(shard_, configure.servers()),
                     optimizer->slots());
    TRIBUTARY_RETURN_IF_ERROR(
        ReadShard(configure.checkpoint(), manifest, layout, &saved));
    for (Snapshot::Chunk& chunk : saved.chunks) {
      TRIBUTARY_RETURN_IF_ERROR(
          replicator_.replicas()->Add(shard_, saved.version, std::move(chunk)));
    }
  }
  replicator_.network()->ServeWorkers(configure.attempt());
  service_->Refuse(absl::FailedPreconditionError(
      "the job's exchange is all_reduce, so no server holds weights: workers "
      "exchange gradients with each other"));
  absl::MutexLock lock(&mu_);
  servers_ = configure.servers();
  job_ = configure.job();
  state_names_ = optimizer->slot_names();
  layout_ = std::move(layout);
  return absl::OkStatus();
}

absl::Status LocalServer::Restore(const Configure& configure,
                                  const CheckpointManifest& manifest,
                                  UpdateEngine* engine) {
  Snapshot snapshot =
      MakeSnapshot(engine->layout(), engine->chunk_numbers(),
                   static_cast<int>(engine->slot_names().size()));
  if (configure.has_journal()) {
    TRIBUTARY_RETURN_IF_ERROR(ReadReplica(shard_, configure.journal(),
                                          &replicator_, engine->tables(),
                                          &snapshot));
  } else {
    TRIBUTARY_RETURN_IF_ERROR(ReadShard(configure.checkpoint(), manifest,
                                        engine->layout(), &snapshot));
    TRIBUTARY_RETURN_IF_ERROR(
        RestoreTables(configure.checkpoint(), manifest, engine->tables()));
  }
  const int64_t version = snapshot.version;
  engine->Restore(std::move(snapshot));
  if (!configure.job().recovery().journal()) return absl::OkStatus();
  // Keeps the state here as well, so that it survives the loss of its source.
  absl::Status added;
  engine->TakeSnapshot(version, [&](Snapshot base) {
    for (Snapshot::Chunk& chunk : base.chunks) {
      added.Update(
          replicator_.replicas()->Add(shard_, base.version, std::move(chunk)));
    }
  });
  return added;
}

absl::Status LocalServer::OnReplicate(const ::tributary::Replicate& order) {
  if (engine() == nullptr || replicator_.replicas() == nullptr) {
    return absl::FailedPreconditionError(
        "replication before the parameter table");
  }
  // Runs on the pool because opening a stream may read certificates, and the
  // coordinator sends orders to its own server with its lock held.
  pool_->Run(
      [this, order] { replicator_.Open(order.address(), order.stored()); });
  return absl::OkStatus();
}

void LocalServer::ReportFailure(const absl::Status& status, int exit_code) {
  ServerReport report;
  Failure* const failure = report.mutable_failure();
  failure->set_message(std::string(status.message()));
  failure->set_exit_code(exit_code);
  failure->set_checkpoint_damaged(absl::IsDataLoss(status) ||
                                  absl::IsNotFound(status));
  report_(report);
}

absl::Status LocalServer::OnSnapshot(const TakeSnapshot& order) {
  {
    absl::MutexLock lock(&mu_);
    if (layout_.has_value()) {
      writer_->Run([this, order] { WriteKept(order); });
      return absl::OkStatus();
    }
  }
  if (engine() == nullptr) {
    return absl::FailedPreconditionError(
        "a snapshot before the parameter table");
  }
  checkpoints_->Take(order);
  return absl::OkStatus();
}

void LocalServer::WriteKept(const TakeSnapshot& order) {
  const auto kept = replicator_.replicas()->Find(shard_, order.version());
  if (!kept.ok()) {
    // The members have sent newer versions meanwhile, which can be saved.
    snapshots_.Report(order.version(), SnapshotReport::PASSED);
    return;
  }
  snapshots_.Report(order.version(), SnapshotReport::TAKEN);
  ShardFiles files;
  files.shard = shard_;
  {
    absl::MutexLock lock(&mu_);
    files.layout = &*layout_;
    files.servers = servers_;
    files.state = state_names_;
  }
  snapshots_.Write(files, order.folder(), *kept);
}

ServerReport LocalServer::Heartbeat() const {
  ServerReport report;
  ServerHeartbeat& heartbeat = *report.mutable_heartbeat();
  heartbeat.set_version(-1);
  if (UpdateEngine* const from = engine()) {
    heartbeat.set_version(CompleteVersion(*from));
    if (const auto missing = FindMissingWork(*from)) {
      *heartbeat.mutable_missing() = *missing;
    }
  }
  *heartbeat.mutable_statistics() = Statistics();
  return report;
}

void LocalServer::AddMetrics(MetricsPage* page) const {
  AddTraffic(service_->traffic(), page);
  page->AddGauge("tributary_server_version",
                 "The oldest of the newest versions of the server's chunks "
                 "and tables; -1: some chunk has no values yet.",
                 static_cast<double>(Heartbeat().heartbeat().version()));
  if (const UpdateEngine* const held = engine()) {
    page->AddGauge("tributary_update_queue_chunks",
                   "Chunks whose gradients are complete and that wait for a "
                   "thread that updates them.",
                   held->QueuedUpdates());
    if (held->tables() != nullptr) AddTableMetrics(*held->tables(), page);
  }
  replicator_.AddMetrics(page);
  snapshots_.AddMetrics(page);
}

ProcessStatistics LocalServer::Statistics() const {
  const Traffic traffic = service_->traffic();
  ProcessStatistics statistics;
  statistics.set_bytes_sent(traffic.streams.sent);
  statistics.set_bytes_received(traffic.streams.received);
  if (traffic.shared_memory.has_value()) {
    statistics.set_shared_bytes_sent(traffic.shared_memory->sent);
    statistics.set_shared_bytes_received(traffic.shared_memory->received);
  }
  meter_.Fill(&statistics);
  absl::MutexLock lock(&mu_);
  SetAccount(engine_.get(), job_, layout_, replicator_.replicas(), &statistics);
  return statistics;
}

}  // namespace tributary
