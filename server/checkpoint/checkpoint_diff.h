// Compares two checkpoints, tensor by tensor.
#ifndef TRIBUTARY_SERVER_CHECKPOINT_CHECKPOINT_DIFF_H_
#define TRIBUTARY_SERVER_CHECKPOINT_CHECKPOINT_DIFF_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tributary {

// The differences of one tensor between two checkpoints.
struct TensorDiff {
  // Name of the tensor: PARAMETER for weights, PARAMETER.STATE for an array of
  // optimizer state.
  std::string name;
  int64_t elements = 0;
  // Number of elements whose bits differ between the checkpoints.
  int64_t differing = 0;
  // Largest absolute difference of an element between the checkpoints. NaN if
  // an element that differs is NaN in at least one of them.
  double largest_difference = 0;
};

// The differences of one table between two checkpoints.
struct TableDiff {
  std::string name;
  int64_t rows = 0;  // Number of keys with a row in either checkpoint.
  // Numbers of keys that have a row in one checkpoint only, and of rows whose
  // values, state or last step differ.
  int64_t only_in_a = 0;
  int64_t only_in_b = 0;
  int64_t differing = 0;

  bool equal() const {
    return only_in_a == 0 && only_in_b == 0 && differing == 0;
  }
};

// The differences between two checkpoints.
struct CheckpointDiff {
  int64_t step_a = 0;
  int64_t step_b = 0;
  // The weights in the model's order, then the state arrays that both
  // checkpoints have.
  std::vector<TensorDiff> tensors;
  // The tables, if both checkpoints have rows of tables.
  std::vector<TableDiff> tables;
  // Names of the state arrays that only one of the checkpoints has: `a` for
  // only_in_a, `b` for only_in_b.
  std::vector<std::string> only_in_a;
  std::vector<std::string> only_in_b;

  // Returns true if both checkpoints have the same tensors and rows, and every
  // bit of them is equal. The steps and the numbers of servers may differ.
  bool equal() const;
};

// Compares the checkpoints in folders `a` and `b`. Reads all files of both
// checkpoints, piece by piece, and uses about 100 MB of memory, and 40 bytes
// for each row of a table. Returns FailedPrecondition, naming the difference,
// if the checkpoints have different parameters, shapes or tables, NotFound if a
// folder has no manifest, and DataLoss, naming the file and the byte range, if
// a checkpoint is damaged.
absl::StatusOr<CheckpointDiff> DiffCheckpoints(const std::string& a,
                                               const std::string& b);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_CHECKPOINT_CHECKPOINT_DIFF_H_
