#include "worker/sparse/feature_rows.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/sparse/add_scaled.h"
#include "worker/sparse/key_numbers.h"
#include "worker/sparse/row_gradient_sum.h"

namespace tributary {

FeatureRows::FeatureRows(const SparseSpec& sparse)
    : tables_(sparse.table_size()) {
  for (const SparseTableSpec& table : sparse.table()) {
    dims_.push_back(table.dim());
  }
  for (const SparseFeatureSpec& spec : sparse.feature()) {
    Feature feature;
    feature.name = spec.has_name() ? spec.name() : spec.column();
    for (int table = 0; table < tables_; ++table) {
      if (sparse.table(table).name() == spec.table()) feature.table = table;
    }
    feature.dim = dims_[feature.table];
    feature.begin = width_;
    feature.pooling = spec.pooling();
    width_ += feature.dim;
    features_.push_back(std::move(feature));
  }
}

absl::StatusOr<BatchRows> FeatureRows::RowsOf(const Batch& batch) const {
  if (batch.feature_keys.size() != features_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a batch with the keys of ", batch.feature_keys.size(),
                     " features, expected ", features_.size()));
  }
  std::vector<size_t> most(tables_);
  for (size_t f = 0; f < features_.size(); ++f) {
    const FeatureKeys& keys = batch.feature_keys[f];
    const bool one_each = features_[f].pooling == SparseFeatureSpec::NONE;
    const auto samples = static_cast<size_t>(batch.samples);
    if (keys.ends.size() != samples ||
        (samples > 0 &&
         keys.ends.back() != static_cast<int64_t>(keys.keys.size())) ||
        (one_each && keys.keys.size() != samples)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "feature '", features_[f].name, "' has ", keys.keys.size(),
          " keys for ", samples, " samples, which pooling ",
          SparseFeatureSpec::Pooling_Name(features_[f].pooling),
          " does not permit"));
    }
    most[features_[f].table] += keys.keys.size();
  }
  std::vector<KeyNumbers> numbers(most.begin(), most.end());
  BatchRows rows;
  for (size_t f = 0; f < features_.size(); ++f) {
    const std::vector<uint64_t>& keys = batch.feature_keys[f].keys;
    KeyNumbers& of_table = numbers[features_[f].table];
    std::vector<int32_t>& row_of_key = rows.row_of_key.emplace_back();
    row_of_key.reserve(keys.size());
    for (const uint64_t key : keys) row_of_key.push_back(of_table.Of(key));
  }
  std::vector<std::vector<int32_t>> place(tables_);
  for (int table = 0; table < tables_; ++table) {
    place[table] = numbers[table].Sort();
    rows.keys.push_back(numbers[table].keys());
  }
  for (size_t f = 0; f < features_.size(); ++f) {
    for (int32_t& row : rows.row_of_key[f]) {
      row = place[features_[f].table][row];
    }
  }
  return rows;
}

void FeatureRows::Pool(const Batch& batch, const BatchRows& rows,
                       const float* values, float* vectors) const {
  std::vector<const float*> tables;
  for (int table = 0; table < tables_; ++table) {
    tables.push_back(values);
    values += static_cast<int64_t>(rows.keys[table].size()) * dims_[table];
  }
  for (size_t f = 0; f < features_.size(); ++f) {
    const Feature& feature = features_[f];
    const float* const table = tables[feature.table];
    const std::vector<int64_t>& ends = batch.feature_keys[f].ends;
    int64_t key = 0;
    for (int64_t sample = 0; sample < batch.samples; ++sample) {
      float* const to = vectors + sample * width_ + feature.begin;
      const int64_t count = ends[sample] - key;
      if (count == 1) {
        std::copy_n(table + int64_t{rows.row_of_key[f][key++]} * feature.dim,
                    feature.dim, to);
        continue;
      }
      std::fill_n(to, feature.dim, 0.f);
      const float scale = feature.pooling == SparseFeatureSpec::MEAN
                              ? 1 / static_cast<float>(count)
                              : 1;
      for (; key < ends[sample]; ++key) {
        AddScaled(table + int64_t{rows.row_of_key[f][key]} * feature.dim, scale,
                  feature.dim, to);
      }
    }
  }
}

TableGradients FeatureRows::GradientsOf(const Batch& batch,
                                        const BatchRows& rows,
                                        const float* vector_gradients) const {
  std::vector<RowGradientSum> sums;
  for (int table = 0; table < tables_; ++table) {
    sums.emplace_back(rows.keys[table], dims_[table]);
  }
  std::vector<int64_t> next(features_.size());
  for (int64_t sample = 0; sample < batch.samples; ++sample) {
    for (size_t f = 0; f < features_.size(); ++f) {
      const Feature& feature = features_[f];
      const float* const from =
          vector_gradients + sample * width_ + feature.begin;
      RowGradientSum& sum = sums[feature.table];
      const int64_t end = batch.feature_keys[f].ends[sample];
      const float scale = feature.pooling == SparseFeatureSpec::MEAN
                              ? 1 / static_cast<float>(end - next[f])
                              : 1;
      for (; next[f] < end; ++next[f]) {
        sum.Add(rows.row_of_key[f][next[f]], scale, from);
      }
    }
  }
  TableGradients gradients;
  for (RowGradientSum& sum : sums) gradients.push_back(sum.Take());
  return gradients;
}

}  // namespace tributary
