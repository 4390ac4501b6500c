#include "worker/sparse/feature_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace tributary {
namespace {

// Two features share a table; the third has pooling MEAN, the fourth NONE.
SparseSpec Sparse() {
  SparseSpec sparse;
  const std::vector<std::pair<std::string, int>> tables = {{"a", 3}, {"b", 2}};
  for (const auto& [name, dim] : tables) {
    sparse.add_table()->set_name(name);
    sparse.mutable_table(sparse.table_size() - 1)->set_dim(dim);
  }
  const auto add = [&](const char* name, const char* table,
                       SparseFeatureSpec::Pooling pooling) {
    SparseFeatureSpec* const feature = sparse.add_feature();
    feature->set_column(name);
    feature->set_table(table);
    feature->set_pooling(pooling);
  };
  add("f0", "a", SparseFeatureSpec::SUM);
  add("f1", "a", SparseFeatureSpec::SUM);
  add("f2", "b", SparseFeatureSpec::MEAN);
  add("f3", "b", SparseFeatureSpec::NONE);
  return sparse;
}

Batch RandomBatch(int samples) {
  std::mt19937 random(2);
  Batch batch;
  batch.samples = samples;
  for (int feature = 0; feature < 4; ++feature) {
    FeatureKeys& keys = batch.feature_keys.emplace_back();
    for (int sample = 0; sample < samples; ++sample) {
      const int count = feature == 3 ? 1 : static_cast<int>(random() % 4);
      for (int i = 0; i < count; ++i) keys.keys.push_back(random() % 9 * 1000);
      keys.ends.push_back(static_cast<int64_t>(keys.keys.size()));
    }
  }
  return batch;
}

// The value of an element of a row, and the gradient of an element of a vector.
float ValueOf(int table, uint64_t key, int column) {
  return static_cast<float>(table * 100 + column) +
         static_cast<float>(key) / 64;
}

TEST(FeatureRowsTest, PoolsRowsAndAddsTheirGradients) {
  const FeatureRows features(Sparse());
  ASSERT_EQ(features.width(), 3 + 3 + 2 + 2);
  const Batch batch = RandomBatch(20);
  const BatchRows rows = features.RowsOf(batch).value();
  const int dims[] = {3, 2};
  const int tables[] = {0, 0, 1, 1};
  const int begins[] = {0, 3, 6, 8};
  // The keys of each table, once each.
  std::vector<std::set<uint64_t>> keys(2);
  for (int f = 0; f < 4; ++f) {
    keys[tables[f]].insert(batch.feature_keys[f].keys.begin(),
                           batch.feature_keys[f].keys.end());
  }
  std::vector<float> values;
  for (int table = 0; table < 2; ++table) {
    ASSERT_EQ(rows.keys[table],
              std::vector<uint64_t>(keys[table].begin(), keys[table].end()));
    for (const uint64_t key : keys[table]) {
      for (int i = 0; i < dims[table]; ++i) {
        values.push_back(ValueOf(table, key, i));
      }
    }
  }

  std::vector<float> vectors(20 * features.width(), -1);
  features.Pool(batch, rows, values.data(), vectors.data());
  std::vector<float> gradient(vectors.size());
  for (size_t i = 0; i < gradient.size(); ++i) {
    gradient[i] = static_cast<float>(i % 13) - 6;
  }
  const TableGradients gradients =
      features.GradientsOf(batch, rows, gradient.data());
  // In float64.
  std::map<std::pair<int, uint64_t>, std::vector<double>> wanted;
  for (int sample = 0; sample < 20; ++sample) {
    for (int f = 0; f < 4; ++f) {
      const FeatureKeys& of = batch.feature_keys[f];
      const int64_t begin = sample == 0 ? 0 : of.ends[sample - 1];
      const int64_t count = of.ends[sample] - begin;
      const double scale =
          f == 2 && count > 0 ? 1.0 / static_cast<double>(count) : 1;
      for (int i = 0; i < dims[tables[f]]; ++i) {
        const int64_t at = sample * features.width() + begins[f] + i;
        double sum = 0;
        for (int64_t k = begin; k < of.ends[sample]; ++k) {
          sum += scale * ValueOf(tables[f], of.keys[k], i);
          auto& row = wanted[{tables[f], of.keys[k]}];
          row.resize(dims[tables[f]]);
          row[i] += scale * gradient[at];
        }
        EXPECT_NEAR(vectors[at], sum, 1e-4) << sample << " " << f;
      }
    }
  }
  for (int table = 0; table < 2; ++table) {
    ASSERT_EQ(gradients[table]->keys, rows.keys[table]);
    for (int64_t row = 0; row < gradients[table]->rows(); ++row) {
      for (int i = 0; i < dims[table]; ++i) {
        EXPECT_NEAR(gradients[table]->values.get()[row * dims[table] + i],
                    (wanted[{table, rows.keys[table][row]}][i]), 1e-4);
      }
    }
  }
}

TEST(FeatureRowsTest, AnEmptyBatchHasNoRows) {
  const FeatureRows features(Sparse());
  Batch batch;
  batch.feature_keys.resize(4);
  const BatchRows rows = features.RowsOf(batch).value();
  const TableGradients gradients = features.GradientsOf(batch, rows, nullptr);
  ASSERT_EQ(gradients.size(), 2u);
  EXPECT_TRUE(gradients[0]->keys.empty());
}

TEST(FeatureRowsTest, RefusesBatchesWithoutTheKeys) {
  const FeatureRows features(Sparse());
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  Batch batch = RandomBatch(3);
  batch.feature_keys.pop_back();
  EXPECT_EQ(features.RowsOf(batch).status().code(), kInvalid);
  batch = RandomBatch(3);
  batch.feature_keys[1].ends.pop_back();
  EXPECT_EQ(features.RowsOf(batch).status().code(), kInvalid);
  batch = RandomBatch(3);
  // Pooling NONE needs one key for each sample.
  batch.feature_keys[3].keys.pop_back();
  batch.feature_keys[3].ends.back() -= 1;
  EXPECT_EQ(features.RowsOf(batch).status().code(), kInvalid);
}

}  // namespace
}  // namespace tributary
