#include "deploy/tools/tune/search/study.h"

#include <cstdint>
#include <string>
#include <vector>

#include "deploy/tools/tune/search/rung_ladder.h"
#include "deploy/tools/tune/search/study_plan.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/deploy/tools/tune/search/simulated_search.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TrialResult ResultOf(double value, double violation = 0) {
  return {{value}, {violation}};
}

StudyPlan PlanOf(const std::string& lines, int64_t steps = 27) {
  return *MakeStudyPlan(SearchWith(lines), steps, /*multiple=*/1,
                        absl::nullopt);
}

std::vector<int64_t> Trials(const std::vector<Promotion>& promotions) {
  std::vector<int64_t> trials;
  for (const Promotion& promotion : promotions) {
    trials.push_back(promotion.trial);
  }
  return trials;
}

TEST(IsBetterTest, ComparesObjectivesInTheirDirections) {
  EXPECT_TRUE(IsBetter({{1, 2}, {}}, {{1, 1}, {}}, {false, true}));
  EXPECT_FALSE(IsBetter({{1, 1}, {}}, {{1, 1}, {}}, {false, true}));
  EXPECT_FALSE(IsBetter({{0, 0}, {}}, {{1, 1}, {}}, {false, true}));
}

TEST(IsBetterTest, ConstraintsComeFirst) {
  EXPECT_TRUE(IsBetter(ResultOf(9, -1), ResultOf(1, 0.5), {false}));
  EXPECT_TRUE(IsBetter(ResultOf(9, 0.2), ResultOf(1, 0.5), {false}));
  EXPECT_FALSE(IsBetter(ResultOf(1, 0.5), ResultOf(9, 0), {false}));
}

TEST(RungLadderTest, PromotesTheBestOfTheFirstTrials) {
  RungLadder ladder(/*rungs=*/3, /*eta=*/2, {false});
  for (int64_t t = 0; t < 4; ++t) ladder.Enter(t);
  ladder.Resolve(0, 0, ResultOf(3));
  EXPECT_THAT(Trials(ladder.TakePromotions()), IsEmpty());
  ladder.Resolve(1, 0, ResultOf(2));
  EXPECT_THAT(Trials(ladder.TakePromotions()), ElementsAre(1));
  // Trial 3 is better than trial 0, but the decision about the first four
  // trials waits for trial 2.
  ladder.Resolve(3, 0, ResultOf(1));
  EXPECT_THAT(Trials(ladder.TakePromotions()), IsEmpty());
  ladder.Resolve(2, 0, ResultOf(9));
  EXPECT_THAT(Trials(ladder.TakePromotions()), ElementsAre(3));
}

TEST(RungLadderTest, FailedTrialsAreNotPromoted) {
  RungLadder ladder(/*rungs=*/2, /*eta=*/2, {false});
  for (int64_t t = 0; t < 4; ++t) ladder.Enter(t);
  ladder.Resolve(0, 0, absl::nullopt);
  ladder.Resolve(1, 0, absl::nullopt);
  EXPECT_THAT(Trials(ladder.TakePromotions()), IsEmpty());
  ladder.Resolve(2, 0, ResultOf(5));
  // The place that the failed trials have left.
  EXPECT_THAT(Trials(ladder.TakePromotions()), ElementsAre(2));
  ladder.Resolve(3, 0, ResultOf(6));
  EXPECT_THAT(Trials(ladder.TakePromotions()), ElementsAre(3));
}

TEST(RungLadderTest, TheEndPromotesAtLeastOneTrialOfEachRung) {
  RungLadder ladder(/*rungs=*/3, /*eta=*/3, {true});
  ladder.Enter(0);
  ladder.Enter(1);
  ladder.Resolve(0, 0, ResultOf(1));
  ladder.Close();
  EXPECT_THAT(Trials(ladder.TakePromotions()), IsEmpty());
  ladder.Resolve(1, 0, ResultOf(2));
  EXPECT_THAT(Trials(ladder.TakePromotions()), ElementsAre(1));
  ladder.Resolve(1, 1, ResultOf(2));
  EXPECT_THAT(Trials(ladder.TakePromotions()), ElementsAre(1));
}

TEST(StudyPlanTest, RungsAreFractionsOfTheTrial) {
  const StudyPlan plan =
      PlanOf("scheduler { successive_halving {} } budget { trials: 27 }", 1500);
  ASSERT_EQ(plan.brackets.size(), 1u);
  EXPECT_THAT(plan.brackets[0].rungs, ElementsAre(55, 166, 500, 1500));
}

TEST(StudyPlanTest, HyperbandHasTheBracketsOfItsPaper) {
  // Table 1 of Li et al., 2018, but with eta 3 and R = 81.
  const StudyPlan plan =
      PlanOf("scheduler { hyperband { rungs: 5 } } budget { trials: 27 }", 81);
  ASSERT_EQ(plan.brackets.size(), 5u);
  std::vector<int64_t> trials, first;
  for (const Bracket& bracket : plan.brackets) {
    trials.push_back(bracket.trials);
    first.push_back(bracket.rungs.front());
  }
  EXPECT_THAT(trials, ElementsAre(81, 34, 15, 8, 5));
  EXPECT_THAT(first, ElementsAre(1, 3, 9, 27, 81));
  EXPECT_EQ(plan.BracketOf(80), 0);
  EXPECT_EQ(plan.BracketOf(81), 1);
  EXPECT_EQ(plan.BracketOf(142), 4);
  EXPECT_EQ(plan.BracketOf(143), 0);
}

TEST(StudyPlanTest, HalvingTakesTheStepsOfItsRungs) {
  const StudyPlan plan =
      PlanOf("scheduler { successive_halving {} } budget { trials: 27 }");
  EXPECT_EQ(plan.StepsOf(27), 81);
  EXPECT_EQ(PlanOf("budget { trials: 27 }").StepsOf(27), 729);
}

TEST(StudyPlanTest, ABudgetOfStepsIsUsedUp) {
  EXPECT_EQ(PlanOf("budget { steps: 100 }").most_trials, 3);
  const StudyPlan plan =
      PlanOf("scheduler { successive_halving {} } budget { steps: 200 }");
  EXPECT_LE(plan.StepsOf(*plan.most_trials), 200);
  EXPECT_GT(plan.StepsOf(*plan.most_trials + 1), 200);
}

TEST(StudyPlanTest, RungsAreWholeRounds) {
  const StudyPlan plan = *MakeStudyPlan(
      SearchWith("scheduler { successive_halving {} } budget { trials: 27 }"),
      1500, /*multiple=*/8, absl::nullopt);
  EXPECT_THAT(plan.brackets[0].rungs, ElementsAre(48, 160, 496, 1500));
}

TEST(StudyPlanTest, RefusesWhatDoesNotFitTheJob) {
  EXPECT_THAT(
      MakeStudyPlan(SearchWith("scheduler { successive_halving { rungs: 5 } }"
                               " budget { trials: 27 }"),
                    27, 1, absl::nullopt),
      StatusIs(absl::StatusCode::kInvalidArgument,
               testing::HasSubstr("rungs")));
  EXPECT_THAT(
      MakeStudyPlan(SearchWith("budget { steps: 26 }"), 27, 1, absl::nullopt),
      StatusIs(absl::StatusCode::kInvalidArgument,
               testing::HasSubstr("budget.steps")));
}

TEST(StudyTest, TheBestTrialSatisfiesTheConstraints) {
  Study study(PlanOf("budget { trials: 3 }"));
  for (int i = 0; i < 3; ++i) study.Propose({0.5, 0.5});
  study.Report(0, ResultOf(1, 3));
  EXPECT_THAT(study.Best(), ElementsAre(0));
  study.Report(1, ResultOf(5, -1));
  EXPECT_THAT(study.Best(), ElementsAre(1));
  study.Report(2, ResultOf(5, -1));
  // Of equal ones, the first.
  EXPECT_THAT(study.Best(), ElementsAre(1));
  EXPECT_TRUE(study.Done());
}

TEST(StudyTest, SeveralObjectivesHaveAParetoFront) {
  Study study(
      PlanOf("objective { metric: \"seconds\" goal: MINIMIZE }"
             " budget { trials: 4 }"));
  for (int i = 0; i < 4; ++i) study.Propose({0.5, 0.5});
  study.Report(0, {{1, 4}, {}});
  study.Report(1, {{2, 2}, {}});
  study.Report(2, {{2, 3}, {}});
  study.Report(3, {{0.5, 9}, {}});
  EXPECT_THAT(study.Best(), ElementsAre(0, 1, 3));
}

TEST(StudyTest, MedianStoppingStopsWorseTrials) {
  Study study(
      PlanOf("scheduler { median_stopping { every_steps: 9 "
             "startup_trials: 2 } } lookahead: 1 budget { trials: 4 }"));
  for (int64_t t = 0; t < 2; ++t) {
    ASSERT_TRUE(study.MayPropose());
    study.Propose({0.5, 0.5});
    for (int rung = 0; rung < 3; ++rung) study.Report(t, ResultOf(1 + t));
  }
  study.Propose({0.5, 0.5});
  study.Report(2, ResultOf(9));
  EXPECT_EQ(study.NextRung(2), -1);
  EXPECT_EQ(study.trials()[2].state, StudyTrial::State::kPaused);
  study.Propose({0.5, 0.5});
  study.Report(3, ResultOf(0));
  EXPECT_EQ(study.NextRung(3), 1);
}

TEST(StudyTest, TrialsOfOthersAreKnownButNotRun) {
  Study study(
      PlanOf("sampler { optuna {} } lookahead: 2 budget { trials: 9 }"));
  study.AddForeign();
  study.EndForeign(0, {0.1, 0.2}, ResultOf(4));
  study.AddForeign();
  EXPECT_THAT(study.Startable(), IsEmpty());
  std::vector<KnownTrial> known = study.Known();
  EXPECT_EQ(known[0].state, KnownTrial::State::kComplete);
  EXPECT_EQ(known[1].state, KnownTrial::State::kRunning);
  study.EndForeign(1, {0.3, 0.2}, ResultOf(3));
  known = study.Known();
  EXPECT_EQ(known[1].state, KnownTrial::State::kComplete);
  EXPECT_THAT(study.Best(), ElementsAre(1));
}

TEST(StudyTest, NoTrialIsProposedAfterTheEnd) {
  Study study(PlanOf("budget { seconds: 5 }"));
  study.Propose({0.5, 0.5});
  study.Close();
  EXPECT_FALSE(study.MayPropose());
  EXPECT_FALSE(study.Done());
  study.Report(0, ResultOf(1));
  EXPECT_TRUE(study.Done());
}

}  // namespace
}  // namespace tributary
