#include "tests/simulation/processes/model_state.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/base/buffer_pool.h"
#include "common/base/status_macros.h"
#include "common/parameters/snapshot.h"
#include "server/checkpoint/checkpoint_folder.h"
#include "server/checkpoint/final_folder.h"
#include "server/checkpoint/manifest.h"
#include "server/checkpoint/shard_files.h"
#include "server/checkpoint/table_files.h"
#include "server/replication/replica_store.h"
#include "tests/simulation/processes/server_process.h"

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

// Makes place for the rows of tables.
void SetTables(const SparseSpec& sparse, ModelState* state) {
  for (const SparseTableSpec& table : sparse.table()) {
    std::vector<BucketRows>& buckets =
        state->tables.emplace_back(table.buckets());
    // Files have no records of empty buckets.
    for (int bucket = 0; bucket < table.buckets(); ++bucket) {
      buckets[bucket].bucket = bucket;
    }
  }
}

void AddTable(const SparseTable& table, std::vector<BucketRows>* buckets) {
  for (const int bucket : table.buckets()) {
    (*buckets)[bucket] = table.ReadBucket(bucket).value();
  }
}

// Adds the replica of a lost server's shard.
absl::Status AddReplica(const World* world, const Process* reader, int shard,
                        int64_t version, ModelState* state) {
  const int holder =
      ReplicaHolderOf(shard, static_cast<int>(world->servers.size()));
  const Process* const replica_holder =
      holder == 0 ? reader : world->servers[holder];
  if (!world->scenario.job.recovery().journal() || !replica_holder->running() ||
      replica_holder->replicas() == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("lost server ", shard, " and its part of the weights"));
  }
  const ReplicaStore& replicas = *replica_holder->replicas();
  TRIBUTARY_ASSIGN_OR_RETURN(const Snapshot chunks,
                             replicas.Find(shard, version));
  AddSnapshot(world->layout, chunks, state);
  if (state->tables.empty()) return absl::OkStatus();
  TRIBUTARY_ASSIGN_OR_RETURN(const ServerTables tables,
                             replicas.tables().Find(shard, version));
  for (size_t number = 0; number < tables.size(); ++number) {
    AddTable(*tables[number], &state->tables[number]);
  }
  return absl::OkStatus();
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
  if (!manifest.tables()) return state;
  const SparseSpec& sparse = world.scenario.job.sparse();
  SetTables(sparse, &state);
  TRIBUTARY_RETURN_IF_ERROR(ReadTableFiles(
      folder, manifest, sparse, [&](int table, const TableRecord& record) {
        if (const auto* const rows = std::get_if<BucketRows>(&record)) {
          state.tables[table][rows->bucket] = *rows;
        }
        return absl::OkStatus();
      }));
  return state;
}

// Adds the rows of a server. Returns false if they are not of this version.
bool AddTables(const TableEngine& tables, int64_t version, ModelState* state) {
  if (tables.version() != version) return false;
  int number = 0;
  for (const auto& table : tables.server_tables()) {
    AddTable(*table, &state->tables[number++]);
  }
  return true;
}

// Reads from the stores of all servers, or from their replicas.
absl::StatusOr<ModelState> ReadServers(World* world, Process* reader,
                                       int64_t version) {
  ModelState state;
  SetTables(world->scenario.job.sparse(), &state);
  if (world->scenario.all_reduce()) {
    TRIBUTARY_ASSIGN_OR_RETURN(const Snapshot saved,
                               reader->replicas()->Find(/*shard=*/0, version));
    AddSnapshot(world->layout, saved, &state);
    return state;
  }
  for (size_t shard = 0; shard < world->servers.size(); ++shard) {
    Process* const process = shard == 0 ? reader : world->servers[shard];
    const SimulatedServices* const services =
        static_cast<ServerProcess*>(process)->services();
    UpdateEngine* const engine =
        services == nullptr ? nullptr : services->engine();
    std::optional<Snapshot> snapshot;
    if (engine != nullptr && world->Reaches(reader->number(), *process)) {
      engine->TakeSnapshot(version, [&snapshot](Snapshot taken) {
        snapshot = std::move(taken);
      });
      if (engine->tables() != nullptr &&
          !AddTables(*engine->tables(), version, &state)) {
        return absl::UnavailableError("the tables have another version");
      }
    }
    if (snapshot.has_value()) {
      AddSnapshot(world->layout, *snapshot, &state);
    } else {
      TRIBUTARY_RETURN_IF_ERROR(
          AddReplica(world, reader, static_cast<int>(shard), version, &state));
    }
  }
  return state;
}

absl::StatusOr<ModelState> ReadNewestCheckpoint(const World& world,
                                                int64_t version) {
  TRIBUTARY_ASSIGN_OR_RETURN(
      const std::vector<CheckpointName> checkpoints,
      ListCheckpoints(CheckpointsFolder(world.disk_folder())));
  if (checkpoints.empty()) return absl::NotFoundError("no checkpoint");
  return ReadFolder(world, checkpoints.front().path, version);
}

}  // namespace

absl::StatusOr<ModelState> ReadResult(World* world, Process* coordinator,
                                      int64_t version) {
  TRIBUTARY_ASSIGN_OR_RETURN(
      ModelState state,
      ReadFolder(*world, FinalFolder(world->disk_folder()), version));
  absl::StatusOr<ModelState> from = ReadServers(world, coordinator, version);
  if (!from.ok()) from = ReadNewestCheckpoint(*world, version);
  if (!from.ok()) from = world->result;
  if (from.ok()) {
    state.slots = std::move(from->slots);
    state.tables = std::move(from->tables);
  }
  return state;
}

}  // namespace tributary::simulation
