#include "server/checkpoint/snapshot_writer.h"

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"

namespace tributary {

bool SnapshotWriter::Write(
    const ShardFiles& shard, const std::string& folder,
    const Snapshot& snapshot,
    const std::function<absl::StatusOr<std::vector<CheckpointFile>>()>&
        write_tables) {
  const absl::Time begin = absl::Now();
  const auto write = [&]() -> absl::StatusOr<std::vector<CheckpointFile>> {
    std::vector<CheckpointFile> files;
    if (write_tables != nullptr) {
      TRIBUTARY_ASSIGN_OR_RETURN(files, write_tables());
    }
    // Syncs the folder, too.
    TRIBUTARY_ASSIGN_OR_RETURN(
        std::vector<CheckpointFile> dense,
        WriteShardFiles(shard, snapshot, folder, files_));
    for (CheckpointFile& file : dense) files.push_back(std::move(file));
    return files;
  };
  const absl::StatusOr<std::vector<CheckpointFile>> written = write();
  if (written.ok()) {
    {
      absl::MutexLock lock(&mu_);
      seconds_.Add(absl::Now() - begin);
      for (const CheckpointFile& file : *written) {
        bytes_ += file.bytes();
      }
    }
    Report(snapshot.version, SnapshotReport::WRITTEN, "", *written);
  } else {
    Report(snapshot.version, SnapshotReport::FAILED,
           std::string(written.status().message()));
  }
  return written.ok();
}

void SnapshotWriter::Report(int64_t version, SnapshotReport::Outcome outcome,
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

void SnapshotWriter::AddMetrics(MetricsPage* page) const {
  absl::MutexLock lock(&mu_);
  page->AddHistogram("tributary_checkpoint_write_seconds",
                     "Time to write this server's part of a checkpoint.",
                     seconds_);
  page->AddCounter("tributary_checkpoint_bytes_total",
                   "Bytes of this server's parts of checkpoints.",
                   static_cast<double>(bytes_));
}

}  // namespace tributary
