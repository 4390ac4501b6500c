#include "server/progress/round_sums.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "common/parameters/arena_layout.h"

namespace tributary {
namespace {

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
