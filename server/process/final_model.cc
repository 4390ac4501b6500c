#include "server/process/final_model.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/monotonic_clock.h"
#include "common/base/status_macros.h"
#include "common/job/exchange_traits.h"
#include "common/optimizer/optimizer.h"
#include "server/checkpoint/checkpoint_folder.h"
#include "server/checkpoint/final_folder.h"
#include "server/checkpoint/final_tables.h"
#include "server/checkpoint/manifest.h"
#include "server/checkpoint/shard_files.h"
#include "server/replication/replica_store.h"

namespace tributary {
namespace {

// Bounds the wait for the last updates, whose inputs are all at the servers.
constexpr absl::Duration kUpdateTimeout = absl::Seconds(5);
constexpr absl::Duration kPoll = absl::Milliseconds(100);

// Returns a snapshot of `chunks` whose values lie in `arena`, with new buffers
// for `slots` optimizer state arrays each.
Snapshot InArena(const std::vector<int>& chunks, int slots,
                 const ArenaLayout& layout, const Buffer& arena) {
  BufferPool buffers(layout.chunk_elements());
  Snapshot model;
  for (const int chunk : chunks) {
    model.chunks.push_back(
        {chunk,
         Buffer(arena, arena.get() + layout.ChunkBegin(chunk)),
         {},
         layout.ChunkSize(chunk)});
    for (int slot = 0; slot < slots; ++slot) {
      model.chunks.back().slots.push_back(buffers.Take());
    }
  }
  return model;
}

// Reads a remote server's shard, or its replica if the server is lost.
absl::Status ReadShardOf(const FinalModelSources& sources, int shard,
                         const ServerOptions& options, const Buffer& arena) {
  const ArenaLayout& layout = sources.engine->layout();
  const int servers = static_cast<int>(sources.addresses.size());
  const std::vector<int> chunks = layout.ChunksOf(shard, servers);
  const absl::Status read =
      sources.network->ReadWeights(sources.addresses[shard], sources.version,
                                   layout, chunks.size(), arena.get());
  if (read.ok() || !sources.copies) return read;
  Snapshot copies =
      InArena(chunks, static_cast<int>(sources.engine->slot_names().size()),
              layout, arena);
  const absl::Status kept =
      sources.copies(shard, ReplicaHolderOf(shard, servers), &copies);
  if (!kept.ok()) return read;
  options.log->Info(
      "took server %d's part of the model from its replica on server %d: %s",
      shard, ReplicaHolderOf(shard, servers), std::string(read.message()));
  return absl::OkStatus();
}

// Reads the whole model from all servers, including this one.
absl::Status ReadModel(const FinalModelSources& sources,
                       const ServerOptions& options, const Buffer& arena) {
  UpdateEngine* const engine = sources.engine;
  for (const int chunk : engine->chunk_numbers()) {
    TRIBUTARY_ASSIGN_OR_RETURN(const WeightsVersion weights,
                               engine->Read(chunk, sources.version));
    std::memcpy(arena.get() + engine->layout().ChunkBegin(chunk),
                weights.values.data, weights.values.bytes);
  }
  for (size_t shard = 1; shard < sources.addresses.size(); ++shard) {
    TRIBUTARY_RETURN_IF_ERROR(
        ReadShardOf(sources, static_cast<int>(shard), options, arena));
  }
  return absl::OkStatus();
}

// Calls ReadModel until the servers have applied the last step. A worker leaves
// only after that. If the last worker was lost after its last push, the step
// completes within milliseconds.
absl::Status AwaitModel(const FinalModelSources& sources,
                        const ServerOptions& options, const Buffer& arena) {
  const absl::Time deadline = MonotonicNow() + kUpdateTimeout;
  absl::Status status;
  do {
    status = ReadModel(sources, options, arena);
    if (!absl::IsFailedPrecondition(status)) return status;
    Sleep(kPoll);
  } while (MonotonicNow() < deadline);
  return status;
}

// Reads the model that the workers of an all-reduce saved on this server.
absl::Status ReadKept(const FinalModelSources& sources,
                      const ServerOptions& options, const ArenaLayout& layout,
                      const Buffer& arena) {
  TRIBUTARY_ASSIGN_OR_RETURN(const std::unique_ptr<Optimizer> optimizer,
                             Optimizer::Create(options.job.optimizer()));
  Snapshot model = InArena(layout.ChunksOf(/*shard=*/0, /*servers=*/1),
                           optimizer->slots(), layout, arena);
  return sources.copies(/*shard=*/0, /*holder=*/0, &model);
}

// Finds the checkpoint of the finished job, or the job's last checkpoint. Sets
// `*manifest` to its manifest, and returns its folder. Returns NotFound if
// there is none, or if it is not of the final version.
absl::StatusOr<std::string> FindCheckpoint(const FinalModelSources& sources,
                                           const ServerOptions& options,
                                           CheckpointManifest* manifest) {
  std::string folder = sources.complete_checkpoint;
  if (folder.empty()) {
    TRIBUTARY_ASSIGN_OR_RETURN(
        const std::vector<CheckpointName> checkpoints,
        ListCheckpoints(CheckpointsFolder(options.output_directory)));
    folder =
        checkpoints.empty() ? options.resume_from : checkpoints.front().path;
  }
  if (folder.empty()) {
    return absl::NotFoundError(
        "there is no checkpoint; set checkpoint.every_steps above 0");
  }
  TRIBUTARY_ASSIGN_OR_RETURN(*manifest, ReadManifest(folder));
  if (manifest->version() != sources.version) {
    return absl::NotFoundError(
        absl::StrCat(folder, ": has version ", manifest->version(),
                     " of the model, expected ", sources.version));
  }
  return folder;
}

// Reads the model from a checkpoint: the checkpoint of the finished job, or the
// job's last checkpoint if a server is lost.
absl::Status ReadSavedModel(const FinalModelSources& sources,
                            const ServerOptions& options,
                            const ArenaLayout& layout, const Buffer& arena) {
  CheckpointManifest manifest;
  TRIBUTARY_ASSIGN_OR_RETURN(const std::string folder,
                             FindCheckpoint(sources, options, &manifest));
  manifest.clear_state();
  manifest.clear_tables();
  Snapshot model = InArena(layout.ChunksOf(/*shard=*/0, /*servers=*/1),
                           /*slots=*/0, layout, arena);
  return ReadShard(folder, manifest, layout, &model);
}

}  // namespace

absl::Status ReadFinalModel(const FinalModelSources& sources,
                            const ServerOptions& options,
                            const ArenaLayout& layout, const Buffer& arena) {
  absl::Status read = absl::UnavailableError("the model is in the checkpoint");
  if (sources.engine != nullptr) {
    read = AwaitModel(sources, options, arena);
  } else if (!ResolveExchange(options.job).servers_update) {
    read = ReadKept(sources, options, layout, arena);
  }
  if (read.ok()) return read;
  const absl::Status saved = ReadSavedModel(sources, options, layout, arena);
  if (saved.ok()) {
    options.log->Info("took the final model from the last checkpoint: %s",
                      std::string(read.message()));
    return absl::OkStatus();
  }
  return sources.engine == nullptr ? saved : read;
}

absl::StatusOr<std::vector<CheckpointFile>> WriteFinalRows(
    const FinalModelSources& sources, const ServerOptions& options) {
  if (!options.job.has_sparse()) return std::vector<CheckpointFile>();
  CheckpointManifest manifest;
  TRIBUTARY_ASSIGN_OR_RETURN(const std::string folder,
                             FindCheckpoint(sources, options, &manifest));
  if (!manifest.tables()) {
    return absl::NotFoundError(absl::StrCat(folder, ": has no tables"));
  }
  return WriteFinalTables(folder, manifest,
                          FinalFolder(options.output_directory), options.files);
}

absl::Status ReadFinalAverage(const FinalModelSources& sources,
                              const ServerOptions& options,
                              const ArenaLayout& layout, const Buffer& arena) {
  CheckpointManifest manifest;
  TRIBUTARY_ASSIGN_OR_RETURN(const std::string folder,
                             FindCheckpoint(sources, options, &manifest));
  const auto& state = manifest.state();
  if (std::find(state.begin(), state.end(), kAverageSlot) == state.end()) {
    return absl::NotFoundError(
        absl::StrCat(folder, ": has no average of the weights"));
  }
  manifest.clear_state();
  manifest.clear_tables();
  manifest.add_state(kAverageSlot);
  Snapshot model = InArena(layout.ChunksOf(/*shard=*/0, /*servers=*/1),
                           /*slots=*/1, layout, arena);
  TRIBUTARY_RETURN_IF_ERROR(ReadShard(folder, manifest, layout, &model));
  for (const Snapshot::Chunk& chunk : model.chunks) {
    float* const weights = chunk.values.get();
    const float* const offset = chunk.slots[0].get();
    for (int64_t i = 0; i < chunk.elements; ++i) weights[i] += offset[i];
  }
  return absl::OkStatus();
}

}  // namespace tributary
