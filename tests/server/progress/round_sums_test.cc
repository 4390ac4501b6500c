#include "server/progress/round_sums.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/parameters/arena_layout.h"
#include "common/parameters/trust_ratios.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

constexpr int kChunks = 2;
const std::vector<int> kBuckets = {5, 3};

// What a server reports: chunk c has the sum 0.1^c, and bucket b of table t has
// 0.3^(t + b), so that the order of the additions matters.
StepSums SumsOf(int shard, int servers) {
  StepSums sums;
  sums.set_step(0);
  sums.set_weight(8);
  double square = 1;
  for (int chunk = 0; chunk < kChunks; ++chunk, square *= 0.1) {
    if (ArenaLayout::ShardOf(chunk, servers) == shard) {
      sums.add_sum_of_squares(square);
    }
  }
  for (size_t table = 0; table < kBuckets.size(); ++table) {
    for (int bucket = 0; bucket < kBuckets[table]; ++bucket) {
      double value = 1;
      for (size_t i = 0; i < table + bucket; ++i) value *= 0.3;
      if (bucket % servers == shard) sums.add_row_sum_of_squares(value);
    }
  }
  return sums;
}

TEST(RoundSumsTest, TheSumDoesNotDependOnTheNumberOfServers) {
  std::vector<double> totals;
  // With three servers, one has no chunk, but buckets.
  for (const int servers : {1, 2, 3}) {
    RoundSums sums(/*rounds=*/4, kChunks, servers, kBuckets);
    for (int shard = servers - 1; shard >= 0; --shard) {
      const auto round = sums.Add(shard, SumsOf(shard, servers));
      ASSERT_TRUE(round.ok()) << round.status();
      ASSERT_EQ(round->has_value(), shard == 0);
      if (round->has_value()) totals.push_back((*round)->squares);
    }
  }
  EXPECT_EQ(totals[0], totals[1]);
  EXPECT_EQ(totals[0], totals[2]);
  EXPECT_NEAR(totals[0], 2.94, 0.01);
}

// Parameters of 40 and 50 elements in chunks of 16: both are in chunk 2.
ArenaLayout LayoutOfTwo() {
  ParameterTable table;
  table.set_chunk_elements(16);
  for (const int size : {40, 50}) {
    auto* const parameter = table.add_parameter();
    parameter->set_name(absl::StrCat("p", size));
    parameter->add_shape(size);
    parameter->set_group(DECAY);
  }
  return *ArenaLayout::Create(table);
}

// What a server reports for LayoutOfTwo: the squares of part n are 0.1^n for
// the weights and 0.3^n for the direction.
StepSums TensorSumsOf(const ArenaLayout& layout, int shard, int servers) {
  const TrustRatios ratios(layout);
  StepSums sums;
  double weights = 1, direction = 1;
  for (int chunk = 0; chunk < layout.chunk_count(); ++chunk) {
    const bool own = ArenaLayout::ShardOf(chunk, servers) == shard;
    if (own) sums.add_sum_of_squares(1);
    for (int part = 0; part < ratios.PartsIn(chunk); ++part) {
      if (own) {
        sums.add_weight_squares(weights);
        sums.add_direction_squares(direction);
      }
      weights *= 0.1;
      direction *= 0.3;
    }
  }
  return sums;
}

TEST(RoundSumsTest, TrustRatiosDoNotDependOnTheNumberOfServers) {
  const ArenaLayout layout = LayoutOfTwo();
  for (const int servers : {1, 2, 3}) {
    RoundSums sums(/*rounds=*/4, layout.chunk_count(), servers, {},
                   TrustRatios(layout));
    std::vector<float> found;
    for (int shard = servers - 1; shard >= 0; --shard) {
      const auto round = sums.Add(shard, TensorSumsOf(layout, shard, servers));
      ASSERT_TRUE(round.ok()) << round.status();
      if (round->has_value()) found = (*round)->trust_ratios;
    }
    // Parts 0 to 2 belong to the first parameter, parts 3 to 6 to the second.
    ASSERT_EQ(found.size(), 2u) << servers;
    EXPECT_FLOAT_EQ(found[0], std::sqrt(1.11 / 1.39));
    EXPECT_FLOAT_EQ(found[1], std::sqrt(0.001111 / (0.027 * 1.417)));
  }
}

TEST(RoundSumsTest, RefusesAWrongNumberOfSquaresOfParameters) {
  const ArenaLayout layout = LayoutOfTwo();
  for (const bool weights : {false, true}) {
    RoundSums sums(/*rounds=*/4, layout.chunk_count(), /*servers=*/1, {},
                   TrustRatios(layout));
    StepSums report = TensorSumsOf(layout, 0, 1);
    if (weights) {
      report.clear_weight_squares();
    } else {
      report.add_direction_squares(1);
    }
    EXPECT_THAT(sums.Add(0, report).status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("squares of parameters")));
  }
  // Nobody needs them.
  RoundSums sums(/*rounds=*/4, layout.chunk_count(), /*servers=*/1);
  EXPECT_THAT(sums.Add(0, TensorSumsOf(layout, 0, 1)).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("squares of parameters")));
}

TEST(RoundSumsTest, RefusesAReportWithoutTheBuckets) {
  RoundSums sums(/*rounds=*/4, kChunks, /*servers=*/1, kBuckets);
  StepSums report = SumsOf(0, 1);
  report.clear_row_sum_of_squares();
  EXPECT_EQ(sums.Add(0, report).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(RoundSumsTest, NamesARowThatIsNotFinite) {
  RoundSums sums(/*rounds=*/4, kChunks, /*servers=*/2, kBuckets);
  StepSums report = SumsOf(1, 2);
  report.mutable_nonfinite_row()->set_key(77);
  ASSERT_TRUE(sums.Add(1, report).ok());
  const auto round = sums.Add(0, SumsOf(0, 2));
  ASSERT_TRUE(round.ok() && round->has_value());
  EXPECT_EQ((*round)->nonfinite_row->key(), 77u);
  EXPECT_FALSE((*round)->nonfinite.has_value());
}

}  // namespace
}  // namespace tributary
