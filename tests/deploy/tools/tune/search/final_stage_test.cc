#include "deploy/tools/tune/search/final_stage.h"

#include <cmath>
#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

FinalSpec Settings(int64_t best, int64_t seeds) {
  FinalSpec settings;
  settings.set_best(best);
  settings.set_seeds(seeds);
  return settings;
}

TrialResult Value(double value, double violation = 0) {
  return {{value}, {violation}};
}

std::vector<std::pair<int64_t, int64_t>> Pending(const FinalStage& stage) {
  std::vector<std::pair<int64_t, int64_t>> runs;
  for (const Segment& segment : stage.Startable()) {
    EXPECT_EQ(segment.steps, 90);
    runs.push_back({segment.trial, segment.final_seed});
  }
  return runs;
}

std::vector<int64_t> Ranked(const FinalStage& stage) {
  std::vector<int64_t> trials;
  for (const FinalCandidate& candidate : stage.Ranking()) {
    trials.push_back(candidate.trial);
  }
  return trials;
}

TEST(FinalStageTest, TrainsEachTrialWithEachSeedThatTheSearchHasNot) {
  FinalStage stage(Settings(3, 3), /*maximize=*/false, /*steps=*/90);
  EXPECT_THAT(Pending(stage), IsEmpty());
  EXPECT_FALSE(stage.Done());
  EXPECT_EQ(stage.StepsLeft(), 3 * 2 * 90);
  // Another program has computed trial 9.
  stage.Begin({4, 9}, {Value(1), absl::nullopt});
  EXPECT_THAT(Pending(stage), ElementsAre(Pair(4, 1), Pair(4, 2), Pair(9, 0),
                                          Pair(9, 1), Pair(9, 2)));
  EXPECT_EQ(stage.StepsLeft(), 5 * 90);
  stage.Report(4, 2, Value(3));
  stage.Report(9, 1, absl::nullopt);
  EXPECT_THAT(Pending(stage), ElementsAre(Pair(4, 1), Pair(9, 0), Pair(9, 2)));
  for (const auto& [trial, seed] : Pending(stage)) {
    EXPECT_FALSE(stage.Done());
    stage.Report(trial, seed, Value(2));
  }
  EXPECT_TRUE(stage.Done());
}

TEST(FinalStageTest, TheBestMeanWins) {
  FinalStage stage(Settings(2, 3), /*maximize=*/true, 90);
  stage.Begin({4, 9}, {Value(10), Value(9)});
  const double of_4[] = {4, 1}, of_9[] = {8, 10};
  for (int64_t seed : {1, 2}) {
    stage.Report(4, seed, Value(of_4[seed - 1]));
    stage.Report(9, seed, Value(of_9[seed - 1]));
  }
  EXPECT_THAT(Ranked(stage), ElementsAre(9, 4));
  const FinalCandidate winner = stage.Ranking()[0];
  EXPECT_THAT(winner.mean.values, ElementsAre(9));
  EXPECT_DOUBLE_EQ(winner.deviation, 1);  // Of 9, 8 and 10.
  EXPECT_DOUBLE_EQ(stage.Ranking()[1].deviation, std::sqrt(21));
}

TEST(FinalStageTest, FailuresAndConstraintsComeBeforeTheMean) {
  FinalStage stage(Settings(3, 2), /*maximize=*/false, 90);
  stage.Begin({1, 2, 3}, {Value(1), Value(2), Value(3)});
  stage.Report(1, 1, absl::nullopt);
  stage.Report(2, 1, Value(2, /*violation=*/0.5));
  stage.Report(3, 1, Value(3));
  EXPECT_THAT(Ranked(stage), ElementsAre(3, 2, 1));
  const FinalCandidate last = stage.Ranking()[2];
  EXPECT_EQ(last.failed, 1);
  EXPECT_EQ(last.ended, 2);
  EXPECT_THAT(last.mean.values, ElementsAre(1));
  EXPECT_EQ(last.deviation, 0);
}

TEST(FinalStageTest, EqualMeansKeepTheOrderOfTheSearch) {
  FinalStage stage(Settings(2, 2), /*maximize=*/false, 90);
  stage.Begin({7, 2}, {Value(1), Value(3)});
  stage.Report(7, 1, Value(3));
  stage.Report(2, 1, Value(1));
  EXPECT_THAT(Ranked(stage), ElementsAre(7, 2));
}

TEST(FinalStageTest, AReportCountsOnce) {
  FinalStage stage(Settings(1, 2), /*maximize=*/false, 90);
  stage.Begin({7}, {Value(1)});
  stage.Report(7, 1, Value(3));
  stage.Report(7, 1, Value(9));
  stage.Report(7, 0, Value(9));
  stage.Report(8, 1, Value(9));
  stage.Report(7, 2, Value(9));
  stage.Begin({8}, {Value(9)});
  EXPECT_THAT(Ranked(stage), ElementsAre(7));
  EXPECT_THAT(stage.Ranking()[0].mean.values, ElementsAre(2));
}

TEST(FinalStageTest, ASearchWithoutATrialHasNoWinner) {
  FinalStage stage(Settings(3, 2), /*maximize=*/false, 90);
  stage.Begin({}, {});
  EXPECT_TRUE(stage.Done());
  EXPECT_THAT(Ranked(stage), IsEmpty());
}

}  // namespace
}  // namespace tributary
