#include "common/sparse/row_gradients.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "common/codec/row_codec.h"

namespace tributary {

RowDims RowDimsOf(const SparseSpec& sparse) {
  RowDims dims;
  for (const SparseTableSpec& table : sparse.table()) {
    dims.push_back(table.dim());
  }
  return dims;
}

std::shared_ptr<const RowGradients> AddRows(
    const std::shared_ptr<const RowGradients>& left,
    const std::shared_ptr<const RowGradients>& right, int dim,
    Encoding encoding) {
  if (right->keys.empty()) return left;
  if (left->keys.empty()) return right;
  auto sum = std::make_shared<RowGradients>();
  sum->keys.reserve(left->keys.size() + right->keys.size());
  std::set_union(left->keys.begin(), left->keys.end(), right->keys.begin(),
                 right->keys.end(), std::back_inserter(sum->keys));
  sum->values = AllocateBuffer(sum->rows() * dim);
  const float* a = left->values.get();
  const float* b = right->values.get();
  size_t in_left = 0, in_right = 0;
  float* out = sum->values.get();
  for (const uint64_t key : sum->keys) {
    const bool has_left =
        in_left < left->keys.size() && left->keys[in_left] == key;
    const bool has_right =
        in_right < right->keys.size() && right->keys[in_right] == key;
    if (has_left && has_right) {
      SumRow(encoding, a, b, out, dim);
    } else {
      std::copy_n(has_left ? a : b, dim, out);
    }
    if (has_left) {
      a += dim;
      ++in_left;
    }
    if (has_right) {
      b += dim;
      ++in_right;
    }
    out += dim;
  }
  return sum;
}

}  // namespace tributary
