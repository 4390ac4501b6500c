#include "tests/simulation/jobs/reference_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "common/sparse/key_hash.h"

namespace tributary::simulation {
namespace {

// Returns the keys of a sample.
std::vector<uint64_t> KeysOf(const FeatureKeys& keys, int64_t sample) {
  const int64_t begin = sample == 0 ? 0 : keys.ends[sample - 1];
  return {keys.keys.begin() + begin, keys.keys.begin() + keys.ends[sample]};
}

// Returns what the row of each of `count` keys is multiplied by.
float ScaleOf(const SparseFeatureSpec& feature, size_t count) {
  return feature.pooling() == SparseFeatureSpec::MEAN
             ? 1 / static_cast<float>(count)
             : 1;
}

// As SumOfSquares, for fewer than sixteen numbers.
double RowSquares(const std::vector<float>& row) {
  double lanes[16] = {};
  for (size_t i = 0; i < row.size(); ++i) {
    lanes[i] = static_cast<double>(row[i]) * static_cast<double>(row[i]);
  }
  for (int width = 16; width > 1; width /= 2) {
    for (int i = 0; i < width / 2; ++i) {
      lanes[i] = lanes[2 * i] + lanes[2 * i + 1];
    }
  }
  return lanes[0];
}

}  // namespace

ReferenceRows::ReferenceRows(const JobSpec& job)
    : sparse_(job.sparse()), versions_(1) {
  for (const SparseTableSpec& table : sparse_.table()) {
    versions_[0].emplace_back(table, job.seed());
  }
  for (const SparseFeatureSpec& feature : sparse_.feature()) {
    int table = 0;
    while (sparse_.table(table).name() != feature.table()) ++table;
    table_of_.push_back(table);
  }
}

void ReferenceRows::SetTrainVectors(Batch* batch) const {
  const auto newest = static_cast<int64_t>(versions_.size()) - 1;
  SetVectors(versions_[std::max<int64_t>(newest - sparse_.fixed_lag(), 0)],
             batch);
}

void ReferenceRows::SetVectors(const Tables& tables, Batch* batch) const {
  for (int64_t sample = 0; sample < batch->samples; ++sample) {
    for (size_t f = 0; f < table_of_.size(); ++f) {
      const ReferenceTable& table = tables[table_of_[f]];
      const auto keys = KeysOf(batch->feature_keys[f], sample);
      const float scale =
          ScaleOf(sparse_.feature(static_cast<int>(f)), keys.size());
      std::vector<float> vector(table.spec().dim());
      for (const uint64_t key : keys) {
        std::vector<float> row = table.Read(key);
        Round(&row);
        for (size_t i = 0; i < row.size(); ++i) vector[i] += scale * row[i];
      }
      batch->vectors.insert(batch->vectors.end(), vector.begin(), vector.end());
    }
  }
}

void ReferenceRows::AddMicroBatch(const Batch& batch,
                                  const std::vector<float>& gradients) {
  Gradients leaf(versions_[0].size());
  auto from = gradients.begin();
  for (int64_t sample = 0; sample < batch.samples; ++sample) {
    for (size_t f = 0; f < table_of_.size(); ++f) {
      const auto dim = static_cast<size_t>(sparse_.table(table_of_[f]).dim());
      const auto keys = KeysOf(batch.feature_keys[f], sample);
      const float scale =
          ScaleOf(sparse_.feature(static_cast<int>(f)), keys.size());
      for (const uint64_t key : keys) {
        std::vector<float>& row = leaf[table_of_[f]][key];
        row.resize(dim);
        for (size_t i = 0; i < dim; ++i) row[i] += scale * from[i];
      }
      from += static_cast<int64_t>(dim);
    }
  }
  for (auto& table : leaf) {
    for (auto& [key, row] : table) Round(&row);
  }
  leaves_.push_back(std::move(leaf));
}

void ReferenceRows::Round(std::vector<float>* row) const {
  if (sparse_.wire_dtype() != SparseSpec::INT8) return;
  float largest = 0;
  for (const float value : *row) {
    if (!(std::abs(value) <= std::ldexp(127.f, 121))) {
      row->assign(row->size(), std::numeric_limits<float>::quiet_NaN());
      return;
    }
    largest = std::max(largest, std::abs(value));
  }
  int exponent = -126;
  while (largest > std::ldexp(127.f, exponent)) ++exponent;
  for (float& value : *row) {
    // In double precision, which is exact. Adding 0 turns -0 into 0.
    value =
        static_cast<float>(std::ldexp(
            std::nearbyint(std::ldexp(double{value}, -exponent)), exponent)) +
        0.f;
  }
}

ReferenceRows::Gradients ReferenceRows::SumUnder(size_t node) const {
  if (node >= leaves_.size()) return leaves_[node - leaves_.size()];
  Gradients sum = SumUnder(2 * node);
  const Gradients right = SumUnder(2 * node + 1);
  for (size_t table = 0; table < sum.size(); ++table) {
    for (const auto& [key, row] : right[table]) {
      const auto [found, added] = sum[table].emplace(key, row);
      if (added) continue;
      for (size_t i = 0; i < row.size(); ++i) found->second[i] += row[i];
      Round(&found->second);
    }
  }
  return sum;
}

void ReferenceRows::Sum() {
  if (versions_[0].empty()) return;
  total_ = SumUnder(1);
  leaves_.clear();
}

void ReferenceRows::AddSquares(double* squares) const {
  for (size_t table = 0; table < total_.size(); ++table) {
    std::vector<double> buckets(
        sparse_.table(static_cast<int>(table)).buckets());
    for (const auto& [key, row] : total_[table]) {
      buckets[KeyHash(key) % buckets.size()] += RowSquares(row);
    }
    for (const double bucket : buckets) *squares += bucket;
  }
}

void ReferenceRows::Apply(float gradient_scale, double rate_factor) {
  Tables next = versions_.back();
  for (size_t table = 0; table < next.size(); ++table) {
    next[table].Apply(total_[table], gradient_scale, rate_factor);
  }
  versions_.push_back(std::move(next));
}

void ReferenceRows::Skip() {
  Tables next = versions_.back();
  for (ReferenceTable& table : next) table.Skip();
  versions_.push_back(std::move(next));
}

std::vector<std::vector<BucketRows>> ReferenceRows::Rows() const {
  std::vector<std::vector<BucketRows>> rows;
  for (const ReferenceTable& table : versions_.back()) {
    rows.push_back(table.Buckets());
  }
  return rows;
}

}  // namespace tributary::simulation
