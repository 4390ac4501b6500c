#include "common/base/latency_histogram.h"

#include <algorithm>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace tributary {
namespace {

TEST(LatencyHistogramTest, IsEmptyAtFirst) {
  const LatencyHistogram histogram;
  EXPECT_EQ(histogram.count(), 0);
  EXPECT_EQ(histogram.Quantile(0.5), absl::ZeroDuration());
}

TEST(LatencyHistogramTest, QuantilesAreThoseOfTheSortedDurations) {
  std::mt19937_64 random(1);
  // From nanoseconds to minutes.
  std::lognormal_distribution<double> nanoseconds(12, 3);
  LatencyHistogram histogram;
  std::vector<double> all;
  for (int i = 0; i < 10001; ++i) {
    const double value = std::max(20.0, nanoseconds(random));
    all.push_back(value);
    histogram.Add(absl::Nanoseconds(value));
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(histogram.count(), 10001);
  for (const double quantile : {0.0, 0.01, 0.5, 0.9, 0.99, 1.0}) {
    const double expected = all[static_cast<size_t>(quantile * 10000)];
    // An interval is an eighth wide.
    EXPECT_NEAR(absl::ToDoubleNanoseconds(histogram.Quantile(quantile)),
                expected, expected / 8)
        << quantile;
  }
}

TEST(LatencyHistogramTest, CountsByTheRuleInTheProto) {
  LatencyHistogram histogram;
  // Each of these begins an interval, and the one before it ends one.
  const int64_t begins[] = {0, 1, 7, 8, 15, 16, 18, 30, 32, 36, 60, 64, 1024};
  const int indexes[] = {0, 1, 7, 8, 15, 16, 17, 23, 24, 25, 31, 32, 64};
  for (int i = 0; i < 13; ++i) {
    LatencyHistogram one;
    one.Add(absl::Nanoseconds(begins[i]));
    EXPECT_EQ(one.counts().count_size(), indexes[i] + 1) << begins[i];
    EXPECT_EQ(one.counts().count(indexes[i]), 1);
    EXPECT_EQ(one.Quantile(0), absl::Nanoseconds(begins[i]));
    if (i == 0) continue;
    LatencyHistogram before;
    before.Add(absl::Nanoseconds(begins[i] - 1));
    EXPECT_EQ(before.counts().count_size(), indexes[i]) << begins[i];
  }
}

TEST(LatencyHistogramTest, AddsUpAndTravels) {
  LatencyHistogram a;
  a.Add(absl::Microseconds(100));
  LatencyHistogram b;
  b.Add(absl::Milliseconds(100));
  b.Add(absl::Milliseconds(100));
  a.Add(b);
  const LatencyHistogram read(a.counts());
  EXPECT_EQ(read.count(), 3);
  EXPECT_LT(read.Quantile(0.3), absl::Microseconds(120));
  EXPECT_GT(read.Quantile(0.5), absl::Milliseconds(80));
}

TEST(LatencyHistogramTest, TakesWhatNoClockShouldSay) {
  LatencyHistogram histogram;
  histogram.Add(-absl::Seconds(1));
  histogram.Add(absl::InfiniteDuration());
  EXPECT_EQ(histogram.count(), 2);
  EXPECT_GT(histogram.Quantile(1), absl::Hours(24));
  DurationCounts lies;
  lies.add_count(-5);
  for (int i = 0; i < 100000; ++i) lies.add_count(1);
  const LatencyHistogram read(lies);
  EXPECT_LT(read.counts().count_size(), 1000);
  EXPECT_GT(read.Quantile(1), absl::Hours(24));
}

TEST(LatencyHistogramTest, CountsAndAddsUpDurations) {
  LatencyHistogram histogram;
  histogram.Add(absl::Milliseconds(1), 3);
  histogram.Add(absl::Microseconds(1001));
  EXPECT_EQ(histogram.count(), 4);
  EXPECT_EQ(histogram.CountUpTo(0), 3);
  EXPECT_EQ(histogram.CountUpTo(1), 4);
  EXPECT_EQ(histogram.sum(), absl::Microseconds(4001));
  LatencyHistogram both;
  both.Add(absl::Seconds(1000));
  both.Add(histogram);
  EXPECT_EQ(both.CountUpTo(0), 3);
  EXPECT_EQ(both.CountUpTo(LatencyHistogram::kBounds.size() - 1), 4);
  // All are the middle of their bucket, from 983040 to 1048576.
  const LatencyHistogram read(histogram.counts());
  EXPECT_EQ(read.CountUpTo(0), 0);
  EXPECT_EQ(read.CountUpTo(1), 4);
  EXPECT_EQ(read.sum(), absl::Nanoseconds(4 * 1015808));
}

}  // namespace
}  // namespace tributary
