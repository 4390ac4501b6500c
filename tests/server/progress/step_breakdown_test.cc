#include "server/progress/step_breakdown.h"

#include <limits>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace tributary {
namespace {

StepSums Arrivals(const std::vector<std::pair<int64_t, float>>& workers) {
  StepSums sums;
  for (const auto& [incarnation, seconds] : workers) {
    sums.add_contributor(incarnation);
    sums.add_contributor_seconds(seconds);
  }
  return sums;
}

// Counters after `steps` steps of two micro-batches, each of which took so
// long.
ProcessStatistics Counters(int64_t steps, double forward, double backward,
                           double data, double exchange) {
  const auto count = static_cast<double>(steps);
  ProcessStatistics counters;
  counters.set_steps(steps);
  counters.set_leaves(2 * steps);
  counters.set_forward_seconds(count * forward);
  counters.set_backward_seconds(count * backward);
  counters.set_data_seconds(count * data);
  counters.set_exchange_seconds(count * exchange);
  return counters;
}

// Workers 11, 12 and 13 have the ranks 0, 1 and 2.
class StepBreakdownTest : public ::testing::Test {
 protected:
  StepBreakdownTest() {
    for (int rank = 0; rank < 3; ++rank) breakdown_.Introduce(11 + rank, rank);
  }

  StepBreakdown breakdown_{/*servers=*/1};
};

TEST_F(StepBreakdownTest, TakesMeansOverTheWindow) {
  breakdown_.AddCounters(12, Counters(10, 0.1, 0.2, 0.01, 0.05));
  breakdown_.EndWindow(10);
  // Ten steps more, twice as slow.
  ProcessStatistics counters = Counters(10, 0.1, 0.2, 0.01, 0.05);
  counters.MergeFrom(Counters(20, 0.15, 0.3, 0.015, 0.075));
  breakdown_.AddCounters(12, counters);
  breakdown_.EndWindow(10);
  ASSERT_EQ(breakdown_.workers().size(), 1);  // The others are unheard of.
  const WorkerStep& step = breakdown_.workers()[0];
  EXPECT_EQ(step.rank, 1);
  EXPECT_DOUBLE_EQ(step.micro_batches, 2);
  EXPECT_NEAR(step.forward_seconds, 0.2, 1e-12);
  EXPECT_NEAR(step.backward_seconds, 0.4, 1e-12);
  EXPECT_NEAR(step.data_seconds, 0.02, 1e-12);
  EXPECT_NEAR(step.exchange_seconds, 0.1, 1e-12);
  // No heartbeat meanwhile: the newest that is known.
  breakdown_.EndWindow(1);
  ASSERT_EQ(breakdown_.workers().size(), 1);
  EXPECT_NEAR(breakdown_.workers()[0].forward_seconds, 0.2, 1e-12);
}

TEST_F(StepBreakdownTest, SortsByRankAndForgetsWhoLeaves) {
  breakdown_.Introduce(5, 3);
  for (const int64_t incarnation : {5, 11, 12, 13, 99}) {
    breakdown_.AddCounters(incarnation, Counters(1, 1, 1, 1, 1));
  }
  breakdown_.RemoveWorker(12);
  breakdown_.EndWindow(1);
  std::vector<int> ranks;
  for (const WorkerStep& step : breakdown_.workers()) {
    ranks.push_back(step.rank);
  }
  EXPECT_EQ(ranks, (std::vector<int>{0, 2, 3}));
}

TEST_F(StepBreakdownTest, NamesWhomTheOthersWaitForAndWhy) {
  breakdown_.AddCounters(11, Counters(4, 0.1, 0.2, 0.0, 0.5));
  breakdown_.AddCounters(12, Counters(4, 0.1, 0.2, 0.0, 0.5));
  breakdown_.AddCounters(13, Counters(4, 0.2, 0.6, 0.0, 0.0));
  // Worker 13 is last three times, half a second after the median of the
  // others; then 11 by a quarter of a second.
  for (int step = 0; step < 3; ++step) {
    breakdown_.AddArrivals(Arrivals({{11, 0.25f}, {12, 0.5f}, {13, 0.875f}}));
  }
  breakdown_.AddArrivals(Arrivals({{11, 0.5f}, {12, 0.25f}, {13, 0.25f}}));
  breakdown_.EndWindow(4);
  ASSERT_TRUE(breakdown_.straggler().has_value());
  EXPECT_EQ(breakdown_.straggler()->rank, 2);
  EXPECT_NEAR(breakdown_.straggler()->seconds, 3 * 0.5 / 4, 1e-6);
  EXPECT_EQ(breakdown_.straggler()->phase, "backward");
  EXPECT_NEAR(breakdown_.workers()[0].waiting_seconds, 3 * 0.625 / 4, 1e-6);
  EXPECT_NEAR(breakdown_.workers()[2].waiting_seconds, 0.25 / 4, 1e-6);
  // Windows do not run into each other; totals do.
  breakdown_.EndWindow(1);
  EXPECT_FALSE(breakdown_.straggler().has_value());
  EXPECT_EQ(breakdown_.workers()[0].waiting_seconds, 0);
  EXPECT_NEAR(breakdown_.totals().at(2).waited_for_seconds, 1.5, 1e-6);
  EXPECT_NEAR(breakdown_.totals().at(0).waited_for_seconds, 0.25, 1e-6);
  EXPECT_NEAR(breakdown_.totals().at(0).waiting_seconds, 3 * 0.625, 1e-6);
}

TEST_F(StepBreakdownTest, WhatComputingDoesNotExplainIsTheExchange) {
  breakdown_.AddArrivals(Arrivals({{11, 0.0f}, {12, 0.5f}}));
  breakdown_.EndWindow(1);
  EXPECT_EQ(breakdown_.straggler()->phase, "");  // Nothing is known yet.
  breakdown_.AddCounters(11, Counters(1, 0.1, 0.2, 0.0, 0.5));
  breakdown_.AddCounters(12, Counters(1, 0.1, 0.21, 0.0, 0.5));
  breakdown_.AddArrivals(Arrivals({{11, 0.0f}, {12, 0.5f}}));
  breakdown_.EndWindow(1);
  EXPECT_EQ(breakdown_.straggler()->rank, 1);
  EXPECT_EQ(breakdown_.straggler()->phase, "exchange");
}

TEST_F(StepBreakdownTest, TurnsAtBeingLateAreNotTheExchange) {
  breakdown_.AddCounters(11, Counters(4, 0.10, 0.20, 0.0, 0.5));
  breakdown_.AddCounters(12, Counters(4, 0.15, 0.19, 0.0, 0.5));
  for (const float late : {0.75f, 1.0f}) {
    breakdown_.AddArrivals(Arrivals({{11, 0.5f}, {12, 0.5f + late}}));
    breakdown_.AddArrivals(Arrivals({{11, 1.0f}, {12, 0.25f}}));
  }
  breakdown_.EndWindow(4);
  EXPECT_EQ(breakdown_.straggler()->rank, 1);
  // 1.75 / 4 - 1.5 / 4 seconds on balance.
  EXPECT_EQ(breakdown_.straggler()->phase, "forward");
}

TEST_F(StepBreakdownTest, NobodyWaitsForOneWorkerAlone) {
  breakdown_.AddArrivals(Arrivals({{11, 3.0f}}));
  breakdown_.AddArrivals(Arrivals({}));
  breakdown_.EndWindow(2);
  EXPECT_FALSE(breakdown_.straggler().has_value());
}

TEST_F(StepBreakdownTest, IgnoresWhatMakesNoSense) {
  breakdown_.AddArrivals(
      Arrivals({{11, 0.0f}, {12, std::numeric_limits<float>::quiet_NaN()}}));
  breakdown_.AddArrivals(Arrivals({{98, 0.0f}, {99, 1.0f}}));
  StepSums uneven;
  uneven.add_contributor(11);
  uneven.add_contributor(12);
  breakdown_.AddArrivals(uneven);
  breakdown_.EndWindow(1);
  EXPECT_FALSE(breakdown_.straggler().has_value());
  EXPECT_TRUE(breakdown_.workers().empty());
}

TEST(StepBreakdown, ServersWaitAtTheSameTime) {
  StepBreakdown breakdown(/*servers=*/2);
  breakdown.Introduce(1, 0);
  breakdown.Introduce(2, 1);
  for (int server = 0; server < 2; ++server) {
    breakdown.AddArrivals(Arrivals({{1, 0.0f}, {2, 0.5f}}));
  }
  breakdown.EndWindow(1);
  EXPECT_EQ(breakdown.straggler()->rank, 1);
  EXPECT_NEAR(breakdown.straggler()->seconds, 0.5, 1e-6);
}

}  // namespace
}  // namespace tributary
