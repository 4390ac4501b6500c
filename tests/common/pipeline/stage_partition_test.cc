#include "common/pipeline/stage_partition.h"

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "absl/functional/function_ref.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr double kNever = std::numeric_limits<double>::infinity();

// Returns the smallest total, over all partitions of [begin, segments) into the
// stages from `stage` on, of costs that `combine` adds to `so_far`.
double BruteForce(int segments, int stages, StageCost cost,
                  absl::FunctionRef<double(double, double)> combine,
                  int stage = 0, int begin = 0, double so_far = 0) {
  if (stage == stages) return begin == segments ? so_far : kNever;
  double best = kNever;
  for (int end = begin + 1; end <= segments; ++end)
    best = std::min(best,
                    BruteForce(segments, stages, cost, combine, stage + 1, end,
                               combine(so_far, cost(stage, begin, end))));
  return best;
}

double Total(const std::vector<int>& bounds, StageCost cost,
             absl::FunctionRef<double(double, double)> combine) {
  if (bounds.empty()) return kNever;
  double total = 0;
  for (size_t stage = 0; stage + 1 < bounds.size(); ++stage)
    total = combine(total, cost(stage, bounds[stage], bounds[stage + 1]));
  return total;
}

TEST(StagePartitionTest, EveryStageHasAtLeastOneSegment) {
  const auto cost = [](int /*stage*/, int begin, int end) -> double {
    return end - begin;
  };
  EXPECT_THAT(MinimizeLargestCost(6, 3, cost), ElementsAre(0, 2, 4, 6));
  EXPECT_THAT(MinimizeLargestCost(3, 3, cost), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(MinimizeLargestCost(2, 3, cost), IsEmpty());
  EXPECT_THAT(MinimizeSumOfCosts(2, 3, cost), IsEmpty());
}

TEST(StagePartitionTest, WithoutAnAllowedPartitionThereIsNone) {
  const auto cost = [](int stage, int /*begin*/, int end) {
    return stage == 1 && end == 4 ? kNever : 1;
  };
  EXPECT_THAT(MinimizeLargestCost(4, 2, cost), IsEmpty());
  EXPECT_THAT(MinimizeSumOfCosts(4, 2, cost), IsEmpty());
}

TEST(StagePartitionTest, FindsTheSmallestCostsOfAllPartitions) {
  std::mt19937 random(17);
  const auto largest = [](double a, double b) { return std::max(a, b); };
  const auto sum = [](double a, double b) { return a + b; };
  for (int trial = 0; trial < 500; ++trial) {
    const int segments = 1 + random() % 9;
    const int stages = 1 + random() % 5;
    // Unrelated costs, of which some are not allowed.
    std::vector<double> costs(stages * 10 * 10);
    for (double& cost : costs)
      cost = random() % 5 == 0 ? kNever : static_cast<double>(random() % 100);
    const auto cost = [&](int stage, int begin, int end) {
      return costs[(stage * 10 + begin) * 10 + end];
    };
    EXPECT_EQ(Total(MinimizeLargestCost(segments, stages, cost), cost, largest),
              BruteForce(segments, stages, cost, largest));
    EXPECT_EQ(Total(MinimizeSumOfCosts(segments, stages, cost), cost, sum),
              BruteForce(segments, stages, cost, sum));
  }
}

}  // namespace
}  // namespace tributary
