#include "worker/sparse/row_lookups.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/base/buffer_pool.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "worker/data/batch.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Three features share a table; the last has a table of its own.
SparseSpec TablesOfProgram() {
  SparseSpec sparse;
  sparse.set_fixed_lag(1);
  const std::vector<std::pair<std::string, int>> tables = {{"a", 3}, {"b", 2}};
  for (const auto& [name, dim] : tables) {
    SparseTableSpec* const table = sparse.add_table();
    table->set_name(name);
    table->set_dim(dim);
  }
  const auto add = [&](const char* name, const char* table,
                       SparseFeatureSpec::Pooling pooling) {
    SparseFeatureSpec* const feature = sparse.add_feature();
    feature->set_column(name);
    feature->set_table(table);
    feature->set_pooling(pooling);
  };
  add("f0", "a", SparseFeatureSpec::SUM);
  add("f1", "a", SparseFeatureSpec::MEAN);
  add("f2", "a", SparseFeatureSpec::NONE);
  add("f3", "b", SparseFeatureSpec::SUM);
  return sparse;
}

// The value of an element of a row in version 0.
float FirstValue(int table, uint64_t key, int column) {
  return 1 / static_cast<float>(key + 3 * table + column + 1);
}

// Has rows whose values are known. Each version adds 1.
class FakeExchange final : public RowExchange {
 public:
  std::unique_ptr<RequestedRows> Request(int64_t version,
                                         const TableKeys& keys) override {
    class Rows final : public RequestedRows {
     public:
      Rows(std::vector<float> values, const absl::Status* failure)
          : values_(std::move(values)), failure_(failure) {}
      absl::StatusOr<const float*> Await(
          const std::function<bool()>& given_up) override {
        if (given_up()) return absl::AbortedError("given up");
        if (!failure_->ok()) return *failure_;
        return values_.data();
      }

     private:
      const std::vector<float> values_;
      const absl::Status* const failure_;
    };
    versions.push_back(version);
    std::vector<float> values;
    for (int table = 0; table < 2; ++table) {
      EXPECT_TRUE(std::is_sorted(keys[table].begin(), keys[table].end()));
      for (const uint64_t key : keys[table]) {
        for (int i = 0; i < 3 - table; ++i) {
          values.push_back(static_cast<float>(version) +
                           FirstValue(table, key, i));
        }
      }
    }
    return std::make_unique<Rows>(std::move(values), &failure);
  }
  void Push(int64_t, int, int64_t, const TableSums&) override {}

  std::vector<int64_t> versions;  // Of all requests.
  absl::Status failure;
};

class RowLookupsTest : public ::testing::Test {
 protected:
  RowLookupsTest() {
    *job_.mutable_sparse() = TablesOfProgram();
    job_.mutable_batch()->set_micro_batches(4);
  }

  RowLookups Make(int64_t version = 0) {
    RowLookups::Options options;
    options.features = &features_;
    options.exchange = &exchange_;
    options.version = version;
    options.announced = &announced_;
    options.step = 5;
    options.micro_batch = 2;
    options.given_up = [this] { return given_up_; };
    return RowLookups(std::move(options));
  }
  // Looks up bags of one key, and returns the vectors.
  std::vector<float> LookUpEach(RowLookups* lookups, int feature,
                                const std::vector<uint64_t>& keys) {
    std::vector<int64_t> ends(keys.size());
    for (size_t i = 0; i < ends.size(); ++i)
      ends[i] = static_cast<int64_t>(i) + 1;
    std::vector<float> vectors(keys.size() * features_.features()[feature].dim);
    EXPECT_TRUE(lookups->LookUp({feature, keys, ends}, vectors.data()).ok());
    return vectors;
  }

  JobSpec job_;
  const FeatureRows features_{TablesOfProgram()};
  FakeExchange exchange_;
  AnnouncedRows announced_;
  bool given_up_ = false;
};

// A micro-batch whose keys the data set has read.
Batch BatchWithKeys(int samples) {
  std::mt19937 random(3);
  Batch batch;
  batch.samples = samples;
  for (int feature = 0; feature < 4; ++feature) {
    FeatureKeys& keys = batch.feature_keys.emplace_back();
    for (int sample = 0; sample < samples; ++sample) {
      const int count = feature == 2 ? 1 : static_cast<int>(random() % 4);
      for (int i = 0; i < count; ++i) keys.keys.push_back(random() % 7);
      keys.ends.push_back(static_cast<int64_t>(keys.keys.size()));
    }
  }
  return batch;
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST_F(RowLookupsTest, HasTheBitsOfAWorkerWhoseDataSetReadsTheKeys) {
  const int samples = 50;
  const Batch batch = BatchWithKeys(samples);
  const BatchRows rows = features_.RowsOf(batch).value();
  const auto requested = exchange_.Request(/*version=*/0, rows.keys);
  const float* const values = requested->Await([] { return false; }).value();
  std::vector<float> vectors(samples * features_.width());
  features_.Pool(batch, rows, values, vectors.data());
  std::vector<float> gradients(vectors.size());
  std::mt19937 random(4);
  for (float& gradient : gradients) {
    gradient = static_cast<float>(random()) / 1e9f - 2;
  }
  const TableGradients expected =
      features_.GradientsOf(batch, rows, gradients.data());

  RowLookups lookups = Make();
  // The order of the calls does not matter.
  for (const int feature : {3, 0, 2, 1}) {
    const FeatureRows::Feature& of = features_.features()[feature];
    const FeatureKeys& keys = batch.feature_keys[feature];
    std::vector<float> of_vectors(samples * of.dim), gradient, pooled;
    const auto number =
        lookups.LookUp({feature, keys.keys, keys.ends}, of_vectors.data());
    ASSERT_TRUE(number.ok()) << number.status();
    for (int64_t sample = 0; sample < samples; ++sample) {
      const int64_t at = sample * features_.width() + of.begin;
      pooled.insert(pooled.end(), vectors.begin() + at,
                    vectors.begin() + at + of.dim);
      gradient.insert(gradient.end(), gradients.begin() + at,
                      gradients.begin() + at + of.dim);
    }
    EXPECT_TRUE(SameBits(of_vectors, pooled)) << feature;
    ASSERT_TRUE(lookups.AddGradients(*number, gradient).ok());
  }
  const TableGradients actual = lookups.Gradients();
  for (int table = 0; table < 2; ++table) {
    ASSERT_EQ(actual[table]->keys, expected[table]->keys);
    const int64_t elements = actual[table]->rows() * features_.dims()[table];
    EXPECT_EQ(
        std::memcmp(actual[table]->values.get(), expected[table]->values.get(),
                    elements * sizeof(float)),
        0);
  }
}

TEST_F(RowLookupsTest, PartsOfAMicroBatchHaveTheBitsOfTheWhole) {
  const std::vector<uint64_t> keys = {4, 1, 4, 4};
  const std::vector<float> gradient = {1e8f,  1, 0, 2, 2, 2,
                                       -1e8f, 1, 0, 1, 1, 1};
  RowLookups whole = Make();
  LookUpEach(&whole, 2, keys);
  ASSERT_TRUE(whole.AddGradients(0, gradient).ok());
  RowLookups parts = Make();
  LookUpEach(&parts, 2, {4, 1});
  LookUpEach(&parts, 2, {4, 4});
  ASSERT_TRUE(parts.AddGradients(1, absl::MakeSpan(gradient).subspan(6)).ok());
  ASSERT_TRUE(
      parts.AddGradients(0, absl::MakeSpan(gradient).subspan(0, 6)).ok());
  for (const RowLookups* lookups : {&whole, &parts}) {
    const TableGradients gradients = lookups->Gradients();
    EXPECT_THAT(gradients[0]->keys, ElementsAre(1, 4));
    // 1e8 - 1e8 + 1, in this order.
    EXPECT_EQ(gradients[0]->values.get()[3], 1);
    EXPECT_THAT(gradients[1]->keys, IsEmpty());
  }
}

TEST_F(RowLookupsTest, OnlyRowsWithAGradientAreUpdated) {
  RowLookups lookups = Make();
  LookUpEach(&lookups, 0, {1, 2});
  LookUpEach(&lookups, 0, {3});
  const std::vector<float> gradient = {1, 2, 3};
  ASSERT_TRUE(lookups.AddGradients(1, gradient).ok());
  ASSERT_TRUE(lookups.AddGradients(1, gradient).ok());
  const TableGradients gradients = lookups.Gradients();
  ASSERT_THAT(gradients[0]->keys, ElementsAre(3));
  EXPECT_EQ(gradients[0]->values.get()[2], 6);
}

TEST_F(RowLookupsTest, AnnouncedRowsAreNotRequestedAgain) {
  announced_.Attach(job_, &features_, &exchange_);
  announced_.Begin(5);
  const std::vector<uint64_t> keys = {9, 2, 9}, others = {5};
  announced_.Announce(5, 2, {{0, keys}, {3, others}, {1, others}});
  EXPECT_THAT(exchange_.versions, ElementsAre(4));  // A lag of 1.
  RowLookups lookups = Make(/*version=*/4);
  EXPECT_EQ(LookUpEach(&lookups, 0, {9, 5})[3], 4 + FirstValue(0, 5, 0));
  EXPECT_EQ(LookUpEach(&lookups, 3, {5})[1], 4 + FirstValue(1, 5, 1));
  EXPECT_THAT(exchange_.versions, ElementsAre(4));
  // Key 6 was not announced.
  EXPECT_EQ(LookUpEach(&lookups, 0, {9, 6})[3], 4 + FirstValue(0, 6, 0));
  EXPECT_THAT(exchange_.versions, ElementsAre(4, 4));
  announced_.Detach();
}

TEST_F(RowLookupsTest, AnnouncementsOfOtherStepsAreIgnoredOrForgotten) {
  const std::vector<uint64_t> keys = {9};
  announced_.Announce(5, 2, {{0, keys}});  // Without an exchange.
  announced_.Attach(job_, &features_, &exchange_);
  announced_.Begin(5);
  announced_.Announce(4, 2, {{0, keys}});
  announced_.Announce(8, 2, {{0, keys}});
  announced_.Announce(6, 4, {{0, keys}});
  announced_.Announce(6, 0, {{4, keys}});
  EXPECT_THAT(exchange_.versions, IsEmpty());
  announced_.Announce(7, 0, {{0, keys}});
  EXPECT_THAT(exchange_.versions, ElementsAre(6));
  EXPECT_NE(announced_.Find(7, 0), nullptr);
  announced_.Begin(8);
  EXPECT_EQ(announced_.Find(7, 0), nullptr);
  announced_.Announce(9, 0, {{0, keys}});
  // The exchange of the next attempt has other connections.
  announced_.Detach();
  announced_.Attach(job_, &features_, &exchange_);
  EXPECT_EQ(announced_.Find(9, 0), nullptr);
  announced_.Detach();
}

TEST_F(RowLookupsTest, WithoutLookUpsWaitsForTheVersion) {
  RowLookups lookups = Make(/*version=*/3);
  EXPECT_EQ(lookups.AwaitVersion(), absl::OkStatus());
  EXPECT_THAT(exchange_.versions, ElementsAre(3));
  given_up_ = true;
  EXPECT_THAT(lookups.AwaitVersion(),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("given up")));
  given_up_ = false;
  LookUpEach(&lookups, 0, {1});
  exchange_.versions.clear();
  EXPECT_EQ(lookups.AwaitVersion(), absl::OkStatus());
  EXPECT_THAT(exchange_.versions, IsEmpty());
}

TEST_F(RowLookupsTest, ErrorsNameTheFeature) {
  RowLookups lookups = Make();
  const std::vector<uint64_t> keys = {1, 2, 3};
  const auto elements = [&](int feature, const std::vector<int64_t>& ends) {
    return lookups.Elements({feature, keys, ends}).status();
  };
  const auto refused = [](const char* part) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(part));
  };
  EXPECT_EQ(lookups.Elements({1, keys, {{1, 1, 3}}}).value(), 9);
  EXPECT_THAT(elements(4, {1, 2, 3}), refused("feature 4"));
  EXPECT_THAT(elements(-1, {1, 2, 3}), refused("feature -1"));
  EXPECT_THAT(elements(2, {1, 3}), refused("f2"));
  EXPECT_THAT(elements(0, {1, 2}), refused("f0"));
  EXPECT_THAT(elements(0, {2, 1, 3}), refused("f0"));
  LookUpEach(&lookups, 0, {1});
  EXPECT_THAT(lookups.AddGradients(1, {{1, 2, 3}}), refused("look-up 1"));
  EXPECT_THAT(lookups.AddGradients(0, {{1, 2}}), refused("f0"));
}

TEST_F(RowLookupsTest, ReturnsWhyRowsDoNotArrive) {
  RowLookups lookups = Make();
  std::vector<float> vectors(3);
  const std::vector<uint64_t> keys = {1};
  const std::vector<int64_t> ends = {1};
  exchange_.failure = absl::UnavailableError("a server is lost");
  EXPECT_THAT(lookups.LookUp({0, keys, ends}, vectors.data()).status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("lost")));
  given_up_ = true;
  EXPECT_THAT(lookups.LookUp({0, keys, ends}, vectors.data()).status(),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("given up")));
}

}  // namespace
}  // namespace tributary
