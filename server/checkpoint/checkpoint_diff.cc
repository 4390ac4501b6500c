#include "server/checkpoint/checkpoint_diff.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>
#include <variant>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/parameters/arena_layout.h"
#include "common/parameters/snapshot.h"
#include "server/checkpoint/manifest.h"
#include "server/checkpoint/shard_files.h"
#include "server/checkpoint/table_files.h"

namespace tributary {
namespace {

// Elements of each array that are in memory at a time. A part is as large as
// the blocks in which files are read, so that few blocks are read twice.
constexpr int64_t kPartElements = int64_t{4} << 20;

// One of the two checkpoints, read in parts.
struct Side {
  std::string folder;
  CheckpointManifest manifest;

  // Returns the index of `name` in the manifest's `state`, or -1 if it is
  // absent.
  int SlotOf(const std::string& name) const {
    const auto& state = manifest.state();
    const auto found = std::find(state.begin(), state.end(), name);
    return found == state.end() ? -1 : static_cast<int>(found - state.begin());
  }

  absl::StatusOr<Snapshot::Chunk> ReadPart(const ArenaLayout& layout,
                                           int number) const {
    const auto buffer = [&] {
      return Buffer(new float[static_cast<size_t>(layout.ChunkSize(number))],
                    std::default_delete<float[]>());
    };
    Snapshot snapshot;
    snapshot.chunks.emplace_back();
    snapshot.chunks[0].number = number;
    snapshot.chunks[0].values = buffer();
    for (int i = 0; i < manifest.state_size(); ++i) {
      snapshot.chunks[0].slots.push_back(buffer());
    }
    TRIBUTARY_RETURN_IF_ERROR(ReadShard(folder, manifest, layout, &snapshot));
    return std::move(snapshot.chunks[0]);
  }
};

const float* ArrayOf(const Snapshot::Chunk& chunk, int slot) {
  return (slot < 0 ? chunk.values : chunk.slots[static_cast<size_t>(slot)])
      .get();
}

std::string Describe(const ParameterTable::Parameter& parameter) {
  return absl::StrCat(parameter.name(), " [",
                      absl::StrJoin(parameter.shape(), ", "), "]");
}

// Requires the same parameters in the same order. The chunk sizes may differ.
absl::Status CheckSameModel(const Side& a, const Side& b) {
  const auto& of_a = a.manifest.table().parameter();
  const auto& of_b = b.manifest.table().parameter();
  const int both = std::min(of_a.size(), of_b.size());
  for (int i = 0; i < both; ++i) {
    if (Describe(of_a[i]) != Describe(of_b[i])) {
      return absl::FailedPreconditionError(absl::StrCat(
          "these are different models: where ", a.folder, " has ",
          Describe(of_a[i]), ", ", b.folder, " has ", Describe(of_b[i])));
    }
  }
  if (of_a.size() != of_b.size()) {
    const bool more_in_a = of_a.size() > of_b.size();
    return absl::FailedPreconditionError(absl::StrCat(
        "these are different models: only ", more_in_a ? a.folder : b.folder,
        " has ", Describe(more_in_a ? of_a[both] : of_b[both])));
  }
  return absl::OkStatus();
}

void Compare(const float* a, const float* b, int64_t count, TensorDiff* diff) {
  // In the common case all elements are equal.
  if (std::memcmp(a, b, static_cast<size_t>(count) * sizeof(float)) == 0) {
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    if (std::memcmp(a + i, b + i, sizeof(float)) == 0) continue;
    ++diff->differing;
    const double difference =
        std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    // The negated comparison also accepts NaN, which then stays the result.
    if (!(difference <= diff->largest_difference)) {
      diff->largest_difference = std::isnan(diff->largest_difference)
                                     ? diff->largest_difference
                                     : difference;
    }
  }
}

// Compares the rows of the tables.
absl::Status CompareTables(const Side& a, const Side& b,
                           std::vector<TableDiff>* diffs) {
  const SparseSpec sparse = JobOf(a.manifest).sparse();
  // A digest of each row of `a` that `b` has not shown to have.
  std::vector<absl::flat_hash_map<uint64_t, uint64_t>> rows_of_a(
      sparse.table_size());
  const auto visit =
      [&](const Side& side,
          const std::function<void(int, uint64_t, uint64_t)>& row) {
        return ReadTableFiles(
            side.folder, side.manifest, sparse,
            [&](int table, const TableRecord& record) {
              const auto* const rows = std::get_if<BucketRows>(&record);
              if (rows == nullptr) return absl::OkStatus();
              const size_t floats =
                  rows->keys.empty() ? 0
                                     : rows->values.size() / rows->keys.size();
              for (size_t i = 0; i < rows->keys.size(); ++i) {
                row(table, rows->keys[i],
                    XXH3_64bits_withSeed(rows->values.data() + i * floats,
                                         floats * sizeof(float),
                                         rows->last_steps[i]));
              }
              return absl::OkStatus();
            });
      };
  for (const SparseTableSpec& table : sparse.table()) {
    diffs->emplace_back().name = table.name();
  }
  TRIBUTARY_RETURN_IF_ERROR(
      visit(a, [&](int table, uint64_t key, uint64_t digest) {
        rows_of_a[table].emplace(key, digest);
        ++(*diffs)[table].rows;
      }));
  TRIBUTARY_RETURN_IF_ERROR(
      visit(b, [&](int table, uint64_t key, uint64_t digest) {
        const auto found = rows_of_a[table].find(key);
        if (found == rows_of_a[table].end()) {
          ++(*diffs)[table].rows;
          ++(*diffs)[table].only_in_b;
          return;
        }
        if (found->second != digest) ++(*diffs)[table].differing;
        rows_of_a[table].erase(found);
      }));
  for (int table = 0; table < sparse.table_size(); ++table) {
    (*diffs)[table].only_in_a = static_cast<int64_t>(rows_of_a[table].size());
  }
  return absl::OkStatus();
}

// The array to compare on each side: the weights (-1), or a state array that
// both checkpoints have.
struct Pair {
  int slot_a = -1;
  int slot_b = -1;
};

}  // namespace

bool CheckpointDiff::equal() const {
  return only_in_a.empty() && only_in_b.empty() &&
         std::all_of(
             tensors.begin(), tensors.end(),
             [](const TensorDiff& tensor) { return tensor.differing == 0; }) &&
         std::all_of(tables.begin(), tables.end(),
                     [](const TableDiff& table) { return table.equal(); });
}

absl::StatusOr<CheckpointDiff> DiffCheckpoints(const std::string& a,
                                               const std::string& b) {
  Side sides[2] = {{a, {}}, {b, {}}};
  for (Side& side : sides) {
    TRIBUTARY_ASSIGN_OR_RETURN(side.manifest, ReadManifest(side.folder));
  }
  TRIBUTARY_RETURN_IF_ERROR(CheckSameModel(sides[0], sides[1]));
  ParameterTable table = sides[0].manifest.table();
  table.set_chunk_elements(kPartElements);
  TRIBUTARY_ASSIGN_OR_RETURN(const ArenaLayout layout,
                             ArenaLayout::Create(table));

  CheckpointDiff diff;
  diff.step_a = sides[0].manifest.step();
  diff.step_b = sides[1].manifest.step();
  std::vector<Pair> pairs = {Pair()};
  std::vector<std::string> endings = {""};
  for (const std::string& name : sides[0].manifest.state()) {
    const int slot = sides[1].SlotOf(name);
    if (slot < 0) {
      diff.only_in_a.push_back(name);
      continue;
    }
    pairs.push_back({sides[0].SlotOf(name), slot});
    endings.push_back(absl::StrCat(".", name));
  }
  for (const std::string& name : sides[1].manifest.state()) {
    if (sides[0].SlotOf(name) < 0) diff.only_in_b.push_back(name);
  }
  for (const std::string& ending : endings) {
    for (const Parameter& parameter : layout.parameters()) {
      diff.tensors.push_back(
          {absl::StrCat(parameter.name, ending), parameter.size});
    }
  }

  const std::vector<Parameter>& parameters = layout.parameters();
  for (int part = 0; part < layout.chunk_count(); ++part) {
    TRIBUTARY_ASSIGN_OR_RETURN(const Snapshot::Chunk of_a,
                               sides[0].ReadPart(layout, part));
    TRIBUTARY_ASSIGN_OR_RETURN(const Snapshot::Chunk of_b,
                               sides[1].ReadPart(layout, part));
    const int64_t begin = layout.ChunkBegin(part);
    const int64_t end = begin + layout.ChunkSize(part);
    for (size_t i = 0; i < parameters.size(); ++i) {
      const int64_t first = std::max(begin, parameters[i].offset);
      const int64_t last =
          std::min(end, parameters[i].offset + parameters[i].size);
      if (first >= last) continue;
      for (size_t pair = 0; pair < pairs.size(); ++pair) {
        Compare(ArrayOf(of_a, pairs[pair].slot_a) + (first - begin),
                ArrayOf(of_b, pairs[pair].slot_b) + (first - begin),
                last - first, &diff.tensors[pair * parameters.size() + i]);
      }
    }
  }
  if (sides[0].manifest.tables() && sides[1].manifest.tables()) {
    TRIBUTARY_RETURN_IF_ERROR(CompareTables(sides[0], sides[1], &diff.tables));
  }
  return diff;
}

}  // namespace tributary
