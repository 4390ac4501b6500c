#include "tests/simulation/processes/model_state.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/buffer_pool.h"
#include "common/base/status_macros.h"
#include "common/parameters/snapshot.h"
#include "common/tensor_io/safetensors.h"
#include "server/checkpoint/checkpoint_folder.h"
#include "server/checkpoint/final_folder.h"
#include "server/checkpoint/manifest.h"
#include "server/checkpoint/shard_files.h"
#include "server/replication/replica_store.h"
#include "tests/simulation/processes/shard_process.h"

namespace tributary::simulation {
namespace {

void AddSnapshot(const ArenaLayout& layout, const Snapshot& snapshot,
                 ModelState* state) {
  const auto elements = static_cast<size_t>(layout.arena_elements());
  state->weights.resize(elements);
  for (const Snapshot::Chunk& chunk : snapshot.chunks) {
    const int64_t begin = layout.ChunkBegin(chunk.number);
    const int64_t size = layout.ChunkSize(chunk.number);
    std::copy_n(chunk.values.get(), size, state->weights.data() + begin);
    state->slots.resize(chunk.slots.size(), std::vector<float>(elements));
    for (size_t slot = 0; slot < chunk.slots.size(); ++slot) {
      std::copy_n(chunk.slots[slot].get(), size,
                  state->slots[slot].data() + begin);
    }
  }
}

// Returns the replica of a lost server's shard.
absl::StatusOr<Snapshot> CopyOf(const World* world, const Process* reader,
                                int shard, int64_t version) {
  const int holder =
      ReplicaHolderOf(shard, static_cast<int>(world->servers.size()));
  const Process* const replica_holder =
      holder == 0 ? reader : world->servers[holder];
  if (!world->scenario.job.recovery().journal() || !replica_holder->running() ||
      replica_holder->replicas() == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("lost server ", shard, " and its part of the weights"));
  }
  return replica_holder->replicas()->Find(shard, version);
}

absl::StatusOr<ModelState> ReadFolder(const World& world,
                                      const std::string& folder,
                                      int64_t version) {
  TRIBUTARY_ASSIGN_OR_RETURN(const CheckpointManifest manifest,
                             ReadManifest(folder));
  if (manifest.version() != version) return absl::NotFoundError(folder);
  BufferPool buffers(world.layout.chunk_elements());
  Snapshot snapshot;
  for (int chunk = 0; chunk < world.layout.chunk_count(); ++chunk) {
    snapshot.chunks.push_back({chunk, buffers.Take(), {}});
    for (int slot = 0; slot < manifest.state_size(); ++slot) {
      snapshot.chunks.back().slots.push_back(buffers.Take());
    }
  }
  TRIBUTARY_RETURN_IF_ERROR(
      ReadShard(folder, manifest, world.layout, &snapshot));
  ModelState state;
  AddSnapshot(world.layout, snapshot, &state);
  return state;
}

}  // namespace

absl::StatusOr<ModelState> ReadServers(World* world, Process* reader,
                                       int64_t version) {
  ModelState state;
  if (world->scenario.all_reduce()) {
    TRIBUTARY_ASSIGN_OR_RETURN(const Snapshot saved,
                               reader->replicas()->Find(/*shard=*/0, version));
    AddSnapshot(world->layout, saved, &state);
    return state;
  }
  for (size_t shard = 0; shard < world->servers.size(); ++shard) {
    Process* const process = shard == 0 ? reader : world->servers[shard];
    ServerAttempt* const server =
        shard == 0 ? static_cast<CoordinatorProcess*>(reader)->server()
                   : static_cast<ShardProcess*>(process)->server();
    ParameterStore* const store =
        server == nullptr ? nullptr : server->local.store();
    if (store == nullptr ||
        world->network.BlockedUntil(reader->number(), process->number()) >
            world->loop.now()) {
      const absl::StatusOr<Snapshot> copy =
          CopyOf(world, reader, static_cast<int>(shard), version);
      if (!copy.ok()) return copy.status();
      AddSnapshot(world->layout, *copy, &state);
      continue;
    }
    // Read as the written model is read.
    for (const int chunk : store->chunk_numbers()) {
      TRIBUTARY_RETURN_IF_ERROR(store->Read(chunk, version).status());
    }
    std::optional<Snapshot> snapshot;
    if (!store->TakeSnapshot(
            version,
            [&snapshot](Snapshot taken) { snapshot = std::move(taken); }) ||
        !snapshot.has_value()) {
      return absl::UnavailableError(
          absl::StrCat("server ", shard, " is not at version ", version));
    }
    AddSnapshot(world->layout, *snapshot, &state);
  }
  return state;
}

absl::StatusOr<ModelState> ReadSaved(World* world, int64_t version) {
  TRIBUTARY_ASSIGN_OR_RETURN(
      const std::vector<CheckpointName> checkpoints,
      ListCheckpoints(CheckpointsFolder(world->disk_folder())));
  if (!checkpoints.empty()) {
    absl::StatusOr<ModelState> state =
        ReadFolder(*world, checkpoints.front().path, version);
    if (state.ok()) return state;
  }
  TRIBUTARY_ASSIGN_OR_RETURN(
      ModelState state,
      ReadFolder(*world, FinalFolder(world->disk_folder()), version));
  TRIBUTARY_RETURN_IF_ERROR(world->result.status());
  state.slots = world->result->slots;
  return state;
}

absl::StatusOr<CheckpointManifest> WriteFinal(
    World* world, const ModelState& state, const CheckpointManifest& manifest) {
  const std::string folder = FinalFolder(world->disk_folder());
  std::vector<NamedTensor> tensors;
  for (const Parameter& parameter : world->layout.parameters()) {
    tensors.push_back({parameter.name, parameter.shape,
                       state.weights.data() + parameter.offset});
  }
  TRIBUTARY_RETURN_IF_ERROR(world->disk.MakeFolder(folder));
  TRIBUTARY_RETURN_IF_ERROR(world->disk.SyncFolder(world->disk_folder()));
  TRIBUTARY_RETURN_IF_ERROR(WriteSafetensors(
      absl::StrCat(folder, "/", kFinalModelName), tensors, {}, &world->disk));
  TRIBUTARY_RETURN_IF_ERROR(WriteFinalManifest(folder, manifest, &world->disk));
  return ReadManifest(folder);
}

}  // namespace tributary::simulation
