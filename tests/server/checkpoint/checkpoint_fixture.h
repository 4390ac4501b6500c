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
#include "common/parameters/arena_layout.h"
#include "common/parameters/snapshot.h"
#include "proto/checkpoint.pb.h"

namespace tributary {

// Everything that determines the contents of a checkpoint.
struct CheckpointFacts {
  ParameterTable table;
  int servers = 1;
  // Names of the optimizer's state tensors of each parameter.
  std::vector<std::string> state;
  int64_t step = 1;
};

// Returns a table of the parameters "a", "b", ... with these shapes, in group
// DECAY.
ParameterTable MakeTable(const std::vector<std::vector<int64_t>>& shapes,
                         int64_t chunk_elements);

// Returns the value of element `index` of a parameter at a step. `slot` is the
// index of an optimizer state tensor, or -1 for the weight. Any of the 2^32 bit
// patterns can occur.
float ElementAt(const std::string& parameter, int slot, int64_t index,
                int64_t step);

// Returns buffers for the chunks of one server of `servers`, with `slots` state
// tensors. All elements, including gaps, are a NaN that no calculation yields.
// The version is -1.
Snapshot MakeEmptySnapshot(const ArenaLayout& layout, int shard, int servers,
                           int slots);

// Returns the state of server `shard`: the values of ElementAt in parameters,
// and the contents of MakeEmptySnapshot in gaps.
Snapshot MakeSnapshot(const CheckpointFacts& facts, int shard);

// Returns the manifest of the checkpoint, without the list of files.
CheckpointManifest MakeManifest(const CheckpointFacts& facts);

// Writes the files of all servers and the manifest to `folder`, which must
// exist. Returns the first error.
absl::Status WriteCheckpointFiles(const CheckpointFacts& facts,
                                  const std::string& folder);

// Like the function above, for one server and a model of one parameter, whose
// elements are `elements`. The optimizer state is zero.
absl::Status WriteCheckpointFiles(const CheckpointFacts& facts,
                                  const std::string& folder,
                                  const std::vector<float>& elements);

// Saves a checkpoint as a job does: Begin, the files of all servers, Commit and
// PointToLatest of a CheckpointFolder for `folder`. Returns the first error,
// after discarding the checkpoint. Ignores errors of PointToLatest.
absl::Status SaveCheckpoint(const CheckpointFacts& facts,
                            const std::string& folder, FileSystem* files);

// Reads the checkpoint in `folder` as `servers` servers with chunks of
// `chunk_elements` would. Returns OK if every element equals ElementAt and gaps
// are zero, Internal if an element or the version is wrong, and otherwise the
// errors of ReadManifest, ArenaLayout::Create and ReadShard.
absl::Status CheckCheckpoint(const CheckpointFacts& facts,
                             const std::string& folder, int servers,
                             int64_t chunk_elements);

// Returns the facts of a model of six small parameters with the optimizer state
// of Adam, at step 7.
CheckpointFacts SmallFacts(int servers);

// Writes a checkpoint to a new folder and returns the folder. Fails the test on
// an error.
std::string MakeCheckpoint(const CheckpointFacts& facts);

// Read and write a whole file. ReadBytes aborts the test program if the file
// cannot be read.
std::string ReadBytes(const std::string& path);
void WriteBytes(const std::string& path, const std::string& bytes);
// Overwrites the byte at offset `place` of a file.
void SetByte(const std::string& path, size_t place, char byte);

// Creates a new folder below testing::TempDir() and returns its path.
std::string MakeFolderForTest();

// Returns the names in the folder, sorted.
std::vector<std::string> NamesIn(const std::string& folder);

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_SERVER_CHECKPOINT_CHECKPOINT_FIXTURE_H_
