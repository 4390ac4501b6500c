// Adds up the gradients of the rows of one micro-batch.
#ifndef TRIBUTARY_WORKER_SPARSE_ROW_GRADIENT_SUM_H_
#define TRIBUTARY_WORKER_SPARSE_ROW_GRADIENT_SUM_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "common/sparse/row_gradients.h"
#include "worker/sparse/add_scaled.h"

namespace tributary {

// The sums of the gradients of rows of a table. Not thread-safe.
class RowGradientSum {
 public:
  // `keys` are ascending, without duplicates; rows have `dim` values.
  RowGradientSum(std::vector<uint64_t> keys, int dim);

  // Adds `scale` * `gradient` to the sum of a row, by its place among the keys.
  // Sums begin with 0.
  void Add(int32_t row, float scale, const float* gradient) {
    float* const sum = sums_->values.get() + int64_t{row} * dim_;
    if (used_[row] != 0) {
      AddScaled(gradient, scale, dim_, sum);
      return;
    }
    used_[row] = 1;
    ++used_rows_;
    SetScaled(gradient, scale, dim_, sum);
  }
  // Loads the sum of a row that Add will change.
  void Prefetch(int32_t row) const {
    PrefetchRow(sums_->values.get() + int64_t{row} * dim_, dim_);
  }
  // Returns the sums of the rows to which something was added. Call it last.
  std::shared_ptr<const RowGradients> Take();

 private:
  const int dim_;
  std::shared_ptr<RowGradients> sums_;
  std::vector<uint8_t> used_;  // By row: whether something was added.
  int64_t used_rows_ = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_SPARSE_ROW_GRADIENT_SUM_H_
