// Checkpoints of an engine.
#ifndef TRIBUTARY_SERVER_CHECKPOINT_ENGINE_CHECKPOINTS_H_
#define TRIBUTARY_SERVER_CHECKPOINT_ENGINE_CHECKPOINTS_H_

#include <memory>
#include <optional>
#include <string>

#include "common/base/executor.h"
#include "common/os/file_system.h"
#include "common/update/engine_copy.h"
#include "common/update/update_engine.h"
#include "proto/checkpoint.pb.h"
#include "proto/rendezvous.pb.h"
#include "server/checkpoint/shard_files.h"
#include "server/checkpoint/snapshot_writer.h"
#include "server/checkpoint/table_chain.h"

namespace tributary {

// Writes an engine's part of the job's checkpoints: its chunks, and the rows of
// its tables that have changed since the checkpoint before. Thread-safe.
class EngineCheckpoints {
 public:
  struct Options {
    int shard = 0;
    int servers = 1;
    // What the engine was restored from, if it was; see TableChain::Options.
    std::string checkpoint;
    std::optional<CheckpointManifest> manifest;
  };
  // Copies and writes on `executor`, which runs one task at a time. All
  // pointers must outlive this object, and `executor` must be drained before it
  // is destroyed.
  EngineCheckpoints(Options options, UpdateEngine* engine, FileSystem* files,
                    SnapshotWriter* writer, Executor* executor);

  // Starts to copy the engine's state and to write it. Reports to the
  // coordinator when it is copied, and when it is written; see SnapshotReport.
  void Take(const TakeSnapshot& order);

 private:
  // Writes a checkpoint's files. Uses the rows of `*copy`.
  void Write(const std::string& folder, EngineCopy* copy);

  UpdateEngine* const engine_;
  SnapshotWriter* const writer_;
  Executor* const executor_;
  ShardFiles files_;
  std::unique_ptr<TableChain> chain_;  // Null in jobs without tables.
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_CHECKPOINT_ENGINE_CHECKPOINTS_H_
