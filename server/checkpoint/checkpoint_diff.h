// What two checkpoints hold in common, and where they differ.
#ifndef TRIBUTARY_SERVER_CHECKPOINT_CHECKPOINT_DIFF_H_
#define TRIBUTARY_SERVER_CHECKPOINT_CHECKPOINT_DIFF_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tributary {

struct TensorDiff {
  // PARAMETER, or PARAMETER.STATE.
  std::string name;
  int64_t elements = 0;
  // How many have other bits.
  int64_t differing = 0;
  // Of those; not a number if one of a pair is not.
  double largest_difference = 0;
};

struct CheckpointDiff {
  int64_t step_a = 0;
  int64_t step_b = 0;
  // The weights, in the model's order, then the state that both have.
  std::vector<TensorDiff> tensors;
  // State arrays that only one has.
  std::vector<std::string> only_in_a;
  std::vector<std::string> only_in_b;

  // Every bit of every tensor: steps do not matter, nor how many servers wrote.
  bool equal() const;
};

// Reads all of both folders, a part at a time: it takes some 100 MB of memory.
// FailedPrecondition, naming the difference, if they are of different models;
// DataLoss, as VerifyCheckpoint, if one is damaged.
absl::StatusOr<CheckpointDiff> DiffCheckpoints(const std::string& a,
                                               const std::string& b);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_CHECKPOINT_CHECKPOINT_DIFF_H_
