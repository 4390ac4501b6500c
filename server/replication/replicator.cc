#include "server/replication/replicator.h"

#include <atomic>
#include <cstddef>
#include <optional>

#include "absl/status/statusor.h"
#include "common/base/failpoint.h"
#include "common/base/status_macros.h"

namespace tributary {

void Replicator::Prepare(const Configure& configure, const ArenaLayout& layout,
                         int arrays) {
  replicas_->tables().Begin(configure.job(), configure.servers());
  replicas_->Begin(configure.journal_scope(), layout, arrays);
  if (configure.has_journal()) {
    const JournalStart& start = configure.journal();
    replicas_->KeepOnly(start.version());
    replicas_->AddJobState(start.version(), start.job_state());
  } else {
    replicas_->KeepOnly(std::nullopt);
  }
  network_->Serve(configure.attempt());
  absl::MutexLock lock(&mu_);
  *hello_.mutable_scope() = configure.journal_scope();
  hello_.set_attempt(configure.attempt());
  hello_.set_shard(shard_);
}

void Replicator::Begin(int64_t version, ServerTables tables) {
  absl::MutexLock lock(&mu_);
  base_version_ = version;
  if (!tables.empty()) replicas_->tables().SetOwn(shard_, tables);
  tables_ = std::move(tables);
}

void Replicator::Open(const std::string& address, bool stored) {
  ReplicaStream* replication = nullptr;
  int64_t base = 0;
  {
    absl::MutexLock lock(&mu_);
    if (ending_ || replication_ != nullptr) return;
    replication_ = network_->Open(
        address, hello_,
        [this](const absl::Status& status) { ReportFailure(status); });
    replication = replication_.get();
    base = stored ? 0 : base_version_;
  }
  Replicate(replication, base);
}

void Replicator::Replicate(ReplicaStream* replication, int64_t base) {
  const auto ready = [this] {
    ServerReport report;
    report.mutable_replicated();
    report_(report);
  };
  if (base == 0) return ready();
  const absl::StatusOr<Snapshot> begun_with = replicas_->Find(shard_, base);
  if (!begun_with.ok()) return ReportFailure(begun_with.status());
  std::shared_ptr<WholeTables> tables;
  {
    absl::MutexLock lock(&mu_);
    if (!tables_.empty()) {
      tables = std::make_shared<WholeTables>(tables_, base,
                                             replicas_->tables().fixed_lag());
    }
  }
  // The call below, each chunk, and the tables.
  const auto missing =
      std::make_shared<std::atomic<size_t>>(begun_with->chunks.size() + 2);
  const auto stored = [missing, ready] {
    if (--*missing == 0) ready();
  };
  for (const Snapshot::Chunk& chunk : begun_with->chunks) {
    replication->Send(base, chunk, stored);
  }
  if (tables == nullptr) {
    stored();
  } else {
    SendTables(replication, std::move(tables), stored);
  }
  stored();
}

void Replicator::SendTables(ReplicaStream* replication,
                            std::shared_ptr<WholeTables> tables,
                            std::function<void()> done) {
  pool_->Run([this, replication, tables = std::move(tables),
              done = std::move(done)] {
    absl::StatusOr<std::vector<ReplicaRows>> next = tables->Next();
    if (!next.ok()) return ReportFailure(next.status());
    if (next->empty()) return done();
    SendRows(replication, *std::move(next), [this, replication, tables, done] {
      SendTables(replication, tables, done);
    });
  });
}

void Replicator::SendRows(ReplicaStream* replication,
                          std::vector<ReplicaRows> parts,
                          std::function<void()> kept) {
  for (size_t part = 0; part < parts.size(); ++part) {
    row_bytes_ += parts[part].payload.bytes;
    replication->Send(std::move(parts[part]),
                      part + 1 < parts.size() ? nullptr : std::move(kept));
  }
}

void Replicator::Keep(int64_t version, Snapshot::Chunk copy,
                      std::function<void()> kept) {
  ReplicaStream* replication = nullptr;
  {
    absl::MutexLock lock(&mu_);
    replication = replication_.get();
  }
  const absl::Status status = replicas_->Add(shard_, version, copy);
  if (!status.ok()) {
    ReportFailure(status);
  } else if (replication != nullptr) {
    // The stream is open before workers join: they join only after Replicated.
    replication->Send(version, copy, std::move(kept));
  }
}

void Replicator::KeepRows(int64_t version,
                          const std::vector<BucketRows>& changes,
                          std::function<void()> kept) {
  ReplicaStream* replication = nullptr;
  ServerTables tables;
  {
    absl::MutexLock lock(&mu_);
    replication = replication_.get();
    tables = tables_;
  }
  if (replication == nullptr) return;
  SendRows(replication, PackStepRows(version, tables, changes),
           std::move(kept));
}

void Replicator::End() {
  ReplicaStream* replication = nullptr;
  {
    absl::MutexLock lock(&mu_);
    ending_ = true;
    replication = replication_.get();
  }
  if (replication != nullptr) replication->End();
}

absl::Status Replicator::ReadCopies(int shard, int64_t version, int holder,
                                    const std::string& address,
                                    const ReplicaTarget& to) const {
  TRIBUTARY_RETURN_IF_ERROR(Failpoint("J3"));
  if (holder != shard_) {
    ReadJournalRequest request;
    {
      absl::MutexLock lock(&mu_);
      *request.mutable_scope() = hello_.scope();
    }
    request.set_shard(shard);
    request.set_version(version);
    return network_->Fetch(address, request, to);
  }
  TRIBUTARY_ASSIGN_OR_RETURN(const Snapshot held,
                             replicas_->Find(shard, version));
  // Copied because the optimizer modifies its state.
  CopySnapshot(held, to.snapshot);
  return absl::OkStatus();
}

void Replicator::AddMetrics(MetricsPage* page) const {
  if (replicas_ == nullptr || !replicas_->tables().used()) return;
  page->AddCounter("tributary_replica_row_bytes_total",
                   "Bytes of rows that were sent to the server that keeps this "
                   "server's replica.",
                   static_cast<double>(row_bytes_));
  page->AddGauge("tributary_replica_table_bytes",
                 "Memory for the replica of the preceding server's tables, in "
                 "bytes.",
                 static_cast<double>(replicas_->tables().copy_bytes()));
}

void Replicator::ReportFailure(const absl::Status& status) {
  ServerReport report;
  report.mutable_replication_failure()->set_message(
      std::string(status.message()));
  report_(report);
}

}  // namespace tributary
