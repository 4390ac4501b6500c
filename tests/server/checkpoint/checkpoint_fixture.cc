#include "tests/server/checkpoint/checkpoint_fixture.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/os/file.h"
#include "gtest/gtest.h"
#include "server/checkpoint/checkpoint_folder.h"
#include "server/checkpoint/manifest.h"
#include "server/checkpoint/shard_files.h"

namespace tributary {
namespace {

// A NaN that no calculation gives.
constexpr uint32_t kGarbage = 0x7fabcdef;

float FromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

uint32_t Bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

Buffer MakeGarbage(int64_t elements) {
  const Buffer buffer(new float[elements], std::default_delete<float[]>());
  const float garbage = FromBits(kGarbage);
  for (int64_t i = 0; i < elements; ++i) {
    std::memcpy(buffer.get() + i, &garbage, sizeof(float));
  }
  return buffer;
}

// Sets the tensors' elements, and leaves the gaps alone.
void FillTensors(const ArenaLayout& layout, int64_t step, Snapshot* snapshot) {
  for (const Snapshot::Chunk& chunk : snapshot->chunks) {
    const int64_t begin = layout.ChunkBegin(chunk.number);
    const int64_t end = begin + layout.ChunkSize(chunk.number);
    for (const Parameter& parameter : layout.parameters()) {
      const int64_t first = std::max(begin, parameter.offset);
      const int64_t last = std::min(end, parameter.offset + parameter.size);
      for (int64_t i = first; i < last; ++i) {
        for (int slot = -1; slot < static_cast<int>(chunk.slots.size());
             ++slot) {
          const Buffer& to = slot < 0 ? chunk.values : chunk.slots[slot];
          const float value =
              ElementAt(parameter.name, slot, i - parameter.offset, step);
          std::memcpy(to.get() + (i - begin), &value, sizeof(value));
        }
      }
    }
  }
}

absl::StatusOr<ArenaLayout> LayoutOf(const CheckpointFacts& facts) {
  return ArenaLayout::Create(facts.table);
}

// The files of all servers; their part of the manifest goes to `manifest`.
absl::Status WriteAllShards(const CheckpointFacts& facts,
                            const std::string& folder, FileSystem* files,
                            CheckpointManifest* manifest) {
  TRIBUTARY_ASSIGN_OR_RETURN(const ArenaLayout layout, LayoutOf(facts));
  for (int shard = 0; shard < facts.servers; ++shard) {
    TRIBUTARY_ASSIGN_OR_RETURN(
        const std::vector<CheckpointFile> written,
        WriteShardFiles({&layout, shard, facts.servers, facts.state},
                        MakeSnapshot(facts, shard), folder, files));
    for (const CheckpointFile& file : written) *manifest->add_file() = file;
  }
  return absl::OkStatus();
}

absl::Status WriteFixtureManifest(const CheckpointManifest& manifest,
                                  const std::string& folder) {
  TRIBUTARY_ASSIGN_OR_RETURN(const std::string text, PrintManifest(manifest));
  return WriteFileAtomically(absl::StrCat(folder, "/", kManifestName), {text});
}

}  // namespace

ParameterTable MakeTable(const std::vector<std::vector<int64_t>>& shapes,
                         int64_t chunk_elements) {
  ParameterTable table;
  table.set_chunk_elements(chunk_elements);
  for (size_t i = 0; i < shapes.size(); ++i) {
    auto* const parameter = table.add_parameter();
    parameter->set_name(std::string(1, static_cast<char>('a' + i)));
    parameter->set_group(DECAY);
    for (const int64_t dimension : shapes[i]) parameter->add_shape(dimension);
  }
  return table;
}

float ElementAt(const std::string& parameter, int slot, int64_t index,
                int64_t step) {
  // The finalizer of MurmurHash3: every bit depends on every other.
  uint64_t hash = static_cast<uint64_t>(index) * 8 +
                  static_cast<uint64_t>(slot + 1) +
                  static_cast<uint64_t>(step) * 0x9e3779b97f4a7c15u;
  for (const char c : parameter) {
    hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  }
  hash ^= hash >> 33;
  hash *= 0xff51afd7ed558ccdu;
  hash ^= hash >> 33;
  return FromBits(static_cast<uint32_t>(hash));
}

Snapshot MakeEmptySnapshot(const ArenaLayout& layout, int shard, int servers,
                           int slots) {
  Snapshot snapshot;
  snapshot.version = -1;
  for (const int number : layout.ChunksOf(shard, servers)) {
    Snapshot::Chunk chunk;
    chunk.number = number;
    chunk.values = MakeGarbage(layout.ChunkSize(number));
    for (int slot = 0; slot < slots; ++slot) {
      chunk.slots.push_back(MakeGarbage(layout.ChunkSize(number)));
    }
    snapshot.chunks.push_back(std::move(chunk));
  }
  return snapshot;
}

Snapshot MakeSnapshot(const CheckpointFacts& facts, int shard) {
  const absl::StatusOr<ArenaLayout> layout = LayoutOf(facts);
  Snapshot snapshot = MakeEmptySnapshot(*layout, shard, facts.servers,
                                        static_cast<int>(facts.state.size()));
  snapshot.version = facts.step;
  FillTensors(*layout, facts.step, &snapshot);
  return snapshot;
}

CheckpointManifest MakeManifest(const CheckpointFacts& facts) {
  CheckpointManifest manifest;
  manifest.set_format(1);
  manifest.set_step(facts.step);
  manifest.set_version(facts.step);
  manifest.set_job("name: \"test\"\n");
  *manifest.mutable_table() = facts.table;
  manifest.set_signature(LayoutOf(facts)->signature());
  manifest.set_servers(facts.servers);
  for (const std::string& name : facts.state) manifest.add_state(name);
  manifest.mutable_job_state()->set_loss(1.25);
  return manifest;
}

absl::Status WriteCheckpointFiles(const CheckpointFacts& facts,
                                  const std::string& folder) {
  CheckpointManifest manifest = MakeManifest(facts);
  TRIBUTARY_RETURN_IF_ERROR(
      WriteAllShards(facts, folder, FileSystem::Posix(), &manifest));
  return WriteFixtureManifest(manifest, folder);
}

absl::Status WriteCheckpointFiles(const CheckpointFacts& facts,
                                  const std::string& folder,
                                  const std::vector<float>& elements) {
  TRIBUTARY_ASSIGN_OR_RETURN(const ArenaLayout layout, LayoutOf(facts));
  Snapshot snapshot =
      MakeEmptySnapshot(layout, 0, 1, static_cast<int>(facts.state.size()));
  for (const Snapshot::Chunk& chunk : snapshot.chunks) {
    const int64_t begin = layout.ChunkBegin(chunk.number);
    const int64_t size = layout.ChunkSize(chunk.number);
    const int64_t end =
        std::min(begin + size, static_cast<int64_t>(elements.size()));
    std::copy(elements.begin() + begin, elements.begin() + end,
              chunk.values.get());
    for (const Buffer& slot : chunk.slots) {
      std::fill(slot.get(), slot.get() + size, 0.0f);
    }
  }
  CheckpointManifest manifest = MakeManifest(facts);
  TRIBUTARY_ASSIGN_OR_RETURN(
      const std::vector<CheckpointFile> written,
      WriteShardFiles({&layout, 0, 1, facts.state}, snapshot, folder,
                      FileSystem::Posix()));
  for (const CheckpointFile& file : written) *manifest.add_file() = file;
  return WriteFixtureManifest(manifest, folder);
}

absl::Status SaveCheckpoint(const CheckpointFacts& facts,
                            const std::string& folder, FileSystem* files) {
  CheckpointFolder checkpoints(folder, files);
  TRIBUTARY_ASSIGN_OR_RETURN(const std::string temporary,
                             checkpoints.Begin(facts.step));
  CheckpointManifest manifest = MakeManifest(facts);
  absl::Status status = WriteAllShards(facts, temporary, files, &manifest);
  if (status.ok()) status = checkpoints.Commit(temporary, manifest);
  if (!status.ok()) {
    checkpoints.Discard(temporary);
    return status;
  }
  checkpoints.PointToLatest(facts.step).IgnoreError();
  return absl::OkStatus();
}

absl::Status CheckCheckpoint(const CheckpointFacts& facts,
                             const std::string& folder, int servers,
                             int64_t chunk_elements) {
  TRIBUTARY_ASSIGN_OR_RETURN(const CheckpointManifest manifest,
                             ReadManifest(folder));
  ParameterTable table = facts.table;
  table.set_chunk_elements(chunk_elements);
  TRIBUTARY_ASSIGN_OR_RETURN(const ArenaLayout layout,
                             ArenaLayout::Create(table));
  const int slots = static_cast<int>(facts.state.size());
  for (int shard = 0; shard < servers; ++shard) {
    Snapshot read = MakeEmptySnapshot(layout, shard, servers, slots);
    TRIBUTARY_RETURN_IF_ERROR(ReadShard(folder, manifest, layout, &read));
    Snapshot expected = MakeEmptySnapshot(layout, shard, servers, slots);
    for (const Snapshot::Chunk& chunk : expected.chunks) {
      const size_t bytes = layout.ChunkSize(chunk.number) * sizeof(float);
      std::memset(chunk.values.get(), 0, bytes);
      for (const Buffer& slot : chunk.slots) std::memset(slot.get(), 0, bytes);
    }
    FillTensors(layout, facts.step, &expected);
    if (read.version != facts.step) return absl::InternalError("version");
    for (size_t i = 0; i < read.chunks.size(); ++i) {
      for (int slot = -1; slot < slots; ++slot) {
        const auto& got = read.chunks[i];
        const auto& want = expected.chunks[i];
        const float* const a =
            slot < 0 ? got.values.get() : got.slots[slot].get();
        const float* const b =
            slot < 0 ? want.values.get() : want.slots[slot].get();
        for (int64_t j = 0; j < layout.ChunkSize(got.number); ++j) {
          if (Bits(a[j]) != Bits(b[j])) {
            return absl::InternalError(absl::StrCat(
                "element ", j, " of chunk ", got.number, ", slot ", slot, ": ",
                absl::Hex(Bits(a[j])), ", expected ", absl::Hex(Bits(b[j]))));
          }
        }
      }
    }
  }
  return absl::OkStatus();
}

CheckpointFacts SmallFacts(int servers) {
  CheckpointFacts facts;
  facts.table = MakeTable({{3}, {32}, {5, 7}, {100}, {}, {2, 3, 4}}, 32);
  facts.servers = servers;
  facts.state = {"exp_avg", "exp_avg_sq"};
  facts.step = 7;
  return facts;
}

std::string MakeCheckpoint(const CheckpointFacts& facts) {
  std::string folder = MakeFolderForTest();
  EXPECT_EQ(WriteCheckpointFiles(facts, folder), absl::OkStatus());
  return folder;
}

std::string ReadBytes(const std::string& path) {
  return *ReadFile(path, int64_t{1} << 30);
}

void WriteBytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

void SetByte(const std::string& path, size_t place, char byte) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(place));
  file.put(byte);
}

std::string MakeFolderForTest() {
  std::string folder = testing::TempDir() + "/checkpoint_XXXXXX";
  EXPECT_NE(mkdtemp(folder.data()), nullptr);
  return folder;
}

std::vector<std::string> NamesIn(const std::string& folder) {
  auto names = ListFolder(folder);
  EXPECT_TRUE(names.ok()) << names.status();
  return *std::move(names);
}

}  // namespace tributary
