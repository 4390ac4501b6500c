#include "worker/sparse/row_gradient_sum.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "common/base/buffer_pool.h"

namespace tributary {

RowGradientSum::RowGradientSum(std::vector<uint64_t> keys, int dim)
    : dim_(dim), sums_(std::make_shared<RowGradients>()), used_(keys.size()) {
  sums_->keys = std::move(keys);
  sums_->values = AllocateBuffer(sums_->rows() * dim);
}

std::shared_ptr<const RowGradients> RowGradientSum::Take() {
  if (used_rows_ == sums_->rows()) return std::move(sums_);
  size_t next = 0;
  for (size_t row = 0; row < used_.size(); ++row) {
    if (used_[row] == 0) continue;
    if (next < row) {
      sums_->keys[next] = sums_->keys[row];
      std::copy_n(sums_->values.get() + row * dim_, dim_,
                  sums_->values.get() + next * dim_);
    }
    ++next;
  }
  sums_->keys.resize(next);
  return std::move(sums_);
}

}  // namespace tributary
