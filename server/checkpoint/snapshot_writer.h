// Writes a server's part of the checkpoints.
#ifndef TRIBUTARY_SERVER_CHECKPOINT_SNAPSHOT_WRITER_H_
#define TRIBUTARY_SERVER_CHECKPOINT_SNAPSHOT_WRITER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/base/latency_histogram.h"
#include "common/metrics/metrics_page.h"
#include "common/os/file_system.h"
#include "common/parameters/snapshot.h"
#include "proto/checkpoint.pb.h"
#include "proto/rendezvous.pb.h"
#include "server/checkpoint/shard_files.h"

namespace tributary {

// Writes a server's files of checkpoints and reports the results to the
// coordinator. Thread-safe.
class SnapshotWriter {
 public:
  // Calls `report` with each report for the coordinator. `files` must outlive
  // this object.
  SnapshotWriter(FileSystem* files,
                 std::function<void(const ServerReport&)> report)
      : files_(files), report_(std::move(report)) {}

  // Writes this server's files of a checkpoint to `folder`, and reports the
  // result. `write_tables` writes the files with rows; null in jobs without
  // tables. Blocks. Returns whether all files were written.
  bool Write(const ShardFiles& shard, const std::string& folder,
             const Snapshot& snapshot,
             const std::function<absl::StatusOr<std::vector<CheckpointFile>>()>&
                 write_tables = nullptr) ABSL_LOCKS_EXCLUDED(mu_);
  void Report(int64_t version, SnapshotReport::Outcome outcome,
              const std::string& message = "",
              const std::vector<CheckpointFile>& files = {});

  // Adds the metrics of the checkpoints that were written.
  void AddMetrics(MetricsPage* page) const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  FileSystem* const files_;
  const std::function<void(const ServerReport&)> report_;

  mutable absl::Mutex mu_;
  // How long this server took to write its part of each checkpoint, and how
  // many bytes it has written to checkpoints so far.
  LatencyHistogram seconds_ ABSL_GUARDED_BY(mu_);
  int64_t bytes_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_CHECKPOINT_SNAPSHOT_WRITER_H_
