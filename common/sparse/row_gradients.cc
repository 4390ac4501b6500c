#include "common/sparse/row_gradients.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "common/codec/row_codec.h"

namespace tributary {
namespace {

// Sums of more levels of the tree are written to memory. Otherwise the memory
// for gradients would grow with the number of micro-batches, also where these
// have the same keys.
constexpr int kMostHeight = 3;

std::shared_ptr<const RowSum> Flat(const std::shared_ptr<const RowSum>& sum,
                                   int height, int dim) {
  if (height < kMostHeight) return sum;
  return std::make_shared<const RowSum>(sum->Gradients(), dim);
}

}  // namespace

RowDims RowDimsOf(const SparseSpec& sparse) {
  RowDims dims;
  for (const SparseTableSpec& table : sparse.table()) {
    dims.push_back(table.dim());
  }
  return dims;
}

RowSum::RowSum(std::shared_ptr<const RowGradients> gradients, int dim)
    : gradients_(std::move(gradients)),
      dim_(dim),
      height_(0),
      encoding_(FLOAT32) {}

RowSum::RowSum(std::shared_ptr<const RowSum> left,
               std::shared_ptr<const RowSum> right, Encoding encoding)
    : dim_(left->dim_),
      height_(1 + std::max(left->height_, right->height_)),
      encoding_(encoding),
      left_(std::move(left)),
      right_(std::move(right)) {
  const std::vector<uint64_t>& a = left_->keys();
  const std::vector<uint64_t>& b = right_->keys();
  keys_.resize(a.size() + b.size());
  places_.resize(keys_.size());
  // Without branches, which could not be predicted.
  size_t i = 0, j = 0, sum = 0;
  while (i < a.size() && j < b.size()) {
    const bool in_left = a[i] <= b[j], in_right = b[j] <= a[i];
    keys_[sum] = in_left ? a[i] : b[j];
    places_[sum] = {in_left ? static_cast<int32_t>(i) : -1,
                    in_right ? static_cast<int32_t>(j) : -1};
    i += in_left ? 1 : 0;
    j += in_right ? 1 : 0;
    ++sum;
  }
  for (; i < a.size(); ++i, ++sum) {
    keys_[sum] = a[i];
    places_[sum] = {static_cast<int32_t>(i), -1};
  }
  for (; j < b.size(); ++j, ++sum) {
    keys_[sum] = b[j];
    places_[sum] = {-1, static_cast<int32_t>(j)};
  }
  keys_.resize(sum);
  places_.resize(sum);
}

std::shared_ptr<const RowSum> RowSum::Add(
    const std::shared_ptr<const RowSum>& left,
    const std::shared_ptr<const RowSum>& right, Encoding encoding) {
  if (right->rows() == 0) return left;
  if (left->rows() == 0) return right;
  return std::shared_ptr<const RowSum>(
      new RowSum(Flat(left, left->height_, left->dim_),
                 Flat(right, right->height_, right->dim_), encoding));
}

const float* RowSum::Read(int64_t row, float* scratch) const {
  if (gradients_ != nullptr) return gradients_->values.get() + row * dim_;
  const Place place = places_[row];
  if (place.right < 0) return left_->Read(place.left, scratch);
  if (place.left < 0) return right_->Read(place.right, scratch);
  const float* const a = left_->Read(place.left, scratch + dim_);
  const float* const b = right_->Read(place.right, scratch + 2 * dim_);
  SumRow(encoding_, a, b, scratch, dim_);
  return scratch;
}

std::shared_ptr<const RowGradients> RowSum::Gradients() const {
  if (gradients_ != nullptr) return gradients_;
  auto all = std::make_shared<RowGradients>();
  all->keys = keys_;
  all->values = AllocateBuffer(rows() * dim_);
  Reader reader(this);
  float* to = all->values.get();
  for (int64_t row = 0; row < rows(); ++row) {
    to = std::copy_n(reader.Read(row), dim_, to);
  }
  return all;
}

TableSums ToSums(const TableGradients& gradients, const RowDims& dims) {
  TableSums sums;
  for (size_t table = 0; table < gradients.size(); ++table) {
    sums.push_back(
        std::make_shared<const RowSum>(gradients[table], dims[table]));
  }
  return sums;
}

TableSums AddSums(const TableSums& left, const TableSums& right,
                  Encoding encoding) {
  TableSums sums;
  for (size_t table = 0; table < left.size(); ++table) {
    sums.push_back(RowSum::Add(left[table], right[table], encoding));
  }
  return sums;
}

}  // namespace tributary
