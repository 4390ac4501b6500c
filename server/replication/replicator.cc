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

void Replicator::Begin(int64_t version) {
  absl::MutexLock lock(&mu_);
  base_version_ = version;
}

void Replicator::Open(const std::string& address) {
  ReplicaStream* replication = nullptr;
  int64_t base = 0;
  {
    absl::MutexLock lock(&mu_);
    if (ending_ || replication_ != nullptr) return;
    replication_ = network_->Open(
        address, hello_,
        [this](const absl::Status& status) { ReportFailure(status); });
    replication = replication_.get();
    base = base_version_;
  }
  Replicate(replication, base);
}

void Replicator::Replicate(ReplicaStream* replication, int64_t base) {
  const auto ready = [this] {
    ServerReport report;
    report.mutable_replicated();
    report_(report);
  };
  Snapshot begun_with;
  if (base > 0) {
    absl::StatusOr<Snapshot> found = replicas_->Find(shard_, base);
    if (!found.ok()) {
      ReportFailure(found.status());
      return;
    }
    begun_with = *std::move(found);
  }
  // A shard has no chunks if there are fewer chunks than servers.
  if (begun_with.chunks.empty()) {
    ready();
    return;
  }
  const auto missing =
      std::make_shared<std::atomic<size_t>>(begun_with.chunks.size());
  for (const Snapshot::Chunk& chunk : begun_with.chunks) {
    replication->Send(base, chunk, [missing, ready] {
      if (--*missing == 0) ready();
    });
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
                                    Snapshot* snapshot) const {
  TRIBUTARY_RETURN_IF_ERROR(Failpoint("J3"));
  if (holder != shard_) {
    ReadJournalRequest request;
    {
      absl::MutexLock lock(&mu_);
      *request.mutable_scope() = hello_.scope();
    }
    request.set_shard(shard);
    request.set_version(version);
    return network_->Fetch(address, request, snapshot);
  }
  TRIBUTARY_ASSIGN_OR_RETURN(const Snapshot held,
                             replicas_->Find(shard, version));
  // Copied because the optimizer modifies its state.
  CopySnapshot(held, snapshot);
  return absl::OkStatus();
}

void Replicator::ReportFailure(const absl::Status& status) {
  ServerReport report;
  report.mutable_replication_failure()->set_message(
      std::string(status.message()));
  report_(report);
}

}  // namespace tributary
