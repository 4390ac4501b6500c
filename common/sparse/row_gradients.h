// Gradients of rows, and their sums.
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

// The sum of the gradients of one table's rows under one node of the reduction
// tree. Only which rows it has is computed at once; their values are added up
// when they are read, so each gradient is read once, and the sums of the nodes
// in between are not written to memory. Immutable and thread-safe.
class RowSum {
 public:
  // The gradients of a node that is not a sum. Their rows have `dim` values.
  RowSum(std::shared_ptr<const RowGradients> gradients, int dim);

  // Returns `left` + `right` for keys that both have, rounded as `encoding`
  // rounds (see RowEncoding). The gradient of a key that one of them has stays
  // as it is: zeros are not added, which would turn -0 into 0. Keeps the
  // gradients of both alive.
  static std::shared_ptr<const RowSum> Add(
      const std::shared_ptr<const RowSum>& left,
      const std::shared_ptr<const RowSum>& right, Encoding encoding);

  // Returns the keys, ascending, without duplicates.
  const std::vector<uint64_t>& keys() const {
    return gradients_ != nullptr ? gradients_->keys : keys_;
  }
  int64_t rows() const { return static_cast<int64_t>(keys().size()); }
  // Returns the gradients if this is not a sum, and null otherwise.
  const RowGradients* gradients() const { return gradients_.get(); }
  // Returns all rows in one array; the gradients themselves if this is not a
  // sum.
  std::shared_ptr<const RowGradients> Gradients() const;

  // Reads rows one by one. Not thread-safe.
  class Reader {
   public:
    // `sum` must outlive the reader.
    explicit Reader(const RowSum* sum)
        : sum_(*sum), scratch_(sum->dim_ * (2 * sum->height_ + 1)) {}
    // Returns a row, by its place in keys(). Valid until the next call.
    const float* Read(int64_t row) { return sum_.Read(row, scratch_.data()); }

   private:
    const RowSum& sum_;
    std::vector<float> scratch_;
  };

 private:
  // Where the two operands have a row; -1: nowhere.
  struct Place {
    int32_t left;
    int32_t right;
  };

  RowSum(std::shared_ptr<const RowSum> left,
         std::shared_ptr<const RowSum> right, Encoding encoding);
  // Returns the row, in `scratch` or in the gradients.
  const float* Read(int64_t row, float* scratch) const;

  const std::shared_ptr<const RowGradients> gradients_;
  const int dim_;
  const int height_;  // 0 if this is not a sum.
  // The following belong to a sum.
  const Encoding encoding_;
  const std::shared_ptr<const RowSum> left_, right_;
  std::vector<uint64_t> keys_;
  std::vector<Place> places_;
};

// The sums of all tables, in the order of the job's tables.
using TableSums = std::vector<std::shared_ptr<const RowSum>>;
// Returns the gradients of a node that is not a sum.
TableSums ToSums(const TableGradients& gradients, const RowDims& dims);
// Adds the sums of each table; see RowSum::Add.
TableSums AddSums(const TableSums& left, const TableSums& right,
                  Encoding encoding);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_SPARSE_ROW_GRADIENTS_H_
