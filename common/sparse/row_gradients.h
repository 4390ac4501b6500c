// Gradients of rows.
#ifndef TRIBUTARY_COMMON_SPARSE_ROW_GRADIENTS_H_
#define TRIBUTARY_COMMON_SPARSE_ROW_GRADIENTS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/buffer_pool.h"
#include "proto/job.pb.h"
#include "proto/parameter_server.pb.h"

namespace tributary {

// Gradients of some rows of one table. Immutable once it is shared.
struct RowGradients {
  std::vector<uint64_t> keys;  // Ascending, without duplicates.
  Buffer values;               // [keys, dim]. May be null if there are no keys.

  int64_t rows() const { return static_cast<int64_t>(keys.size()); }
};

// The number of values of a row of each table, in the order of the job's
// tables.
using RowDims = std::vector<int>;
RowDims RowDimsOf(const SparseSpec& sparse);

// Keys of each table, in the order of the job's tables; ascending and without
// duplicates in each table.
using TableKeys = std::vector<std::vector<uint64_t>>;
// The gradients of the rows of all tables, in the order of the job's tables.
using TableGradients = std::vector<std::shared_ptr<const RowGradients>>;

// Returns the sum of the gradients of two nodes of the reduction tree, for rows
// of `dim` values: `left` + `right` for keys that both have, rounded as
// `encoding` rounds (see RowEncoding). The gradient of a key that one of them
// has is copied: zeros are not added, which would turn -0 into 0.
std::shared_ptr<const RowGradients> AddRows(
    const std::shared_ptr<const RowGradients>& left,
    const std::shared_ptr<const RowGradients>& right, int dim,
    Encoding encoding);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_SPARSE_ROW_GRADIENTS_H_
