// Checkpoints of known contents, for tests.
#ifndef TRIBUTARY_TESTS_SERVER_CHECKPOINT_CHECKPOINT_FIXTURE_H_
#define TRIBUTARY_TESTS_SERVER_CHECKPOINT_CHECKPOINT_FIXTURE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/os/file_system.h"
#include "common/parameters/parameter_table.h"
#include "common/parameters/snapshot.h"
#include "proto/checkpoint.pb.h"

namespace tributary {

// A model, its servers, and a step: all that decides what a checkpoint holds.
struct CheckpointFacts {
  ParameterTable table;
  int servers = 1;
  std::vector<std::string> state;
  int64_t step = 1;
};

// Parameters "a", "b", ... of the given shapes.
ParameterTable MakeTable(const std::vector<std::vector<int64_t>>& shapes,
                         int64_t chunk_elements);

// What element `index` of a parameter is at a step; `slot` -1: the weight. Any
// of the 2^32 bit patterns.
float ElementAt(const std::string& parameter, int slot, int64_t index,
                int64_t step);

// Buffers for the chunks of one server. All elements, gaps too, are garbage.
Snapshot MakeEmptySnapshot(const ArenaLayout& layout, int shard, int servers,
                           int slots);

// The state of one server: ElementAt in the tensors, garbage in the gaps.
Snapshot MakeSnapshot(const CheckpointFacts& facts, int shard);

// The manifest without its files.
CheckpointManifest MakeManifest(const CheckpointFacts& facts);

// Writes the files of all servers into `folder`, which exists, and the
// manifest.
absl::Status WriteCheckpointFiles(const CheckpointFacts& facts,
                                  const std::string& folder);

// The same by one server, for a model of one parameter with the given elements;
// its state is zero.
absl::Status WriteCheckpointFiles(const CheckpointFacts& facts,
                                  const std::string& folder,
                                  const std::vector<float>& elements);

// A whole save: Begin, the files of all servers, Commit, PointToLatest (whose
// errors are ignored) in `folder`, a run's CheckpointsFolder. On an error what
// was begun is discarded.
absl::Status SaveCheckpoint(const CheckpointFacts& facts,
                            const std::string& folder, FileSystem* files);

// Reads the checkpoint in `folder` as `servers` servers with chunks of
// `chunk_elements`; OK if all of them find every element as written and zeros
// in the gaps. Errors of ReadManifest and ReadShard as they are; Internal for a
// wrong element.
absl::Status CheckCheckpoint(const CheckpointFacts& facts,
                             const std::string& folder, int servers,
                             int64_t chunk_elements);

// A model of six small parameters with the state of Adam, at step 7.
CheckpointFacts SmallFacts(int servers);

// Writes a checkpoint into a new folder, which it returns.
std::string MakeCheckpoint(const CheckpointFacts& facts);

// A whole file's bytes.
std::string ReadBytes(const std::string& path);
void WriteBytes(const std::string& path, const std::string& bytes);
// In place.
void SetByte(const std::string& path, size_t place, char byte);

// A new folder below testing::TempDir().
std::string MakeFolderForTest();

// What is in the folder, sorted.
std::vector<std::string> NamesIn(const std::string& folder);

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_SERVER_CHECKPOINT_CHECKPOINT_FIXTURE_H_
