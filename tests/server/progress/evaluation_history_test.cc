#include "server/progress/evaluation_history.h"

#include <cmath>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

JobSpec JobWithPatience(int64_t patience, double min_delta = 0) {
  JobSpec job;
  job.mutable_stop_when()->set_patience(patience);
  job.mutable_stop_when()->set_min_delta(min_delta);
  return job;
}

// Returns the number of evaluations after which the job stops; -1: never.
int StopsAfter(EvaluationHistory history, const std::vector<double>& losses) {
  for (size_t i = 0; i < losses.size(); ++i) {
    const int64_t step = static_cast<int64_t>(i + 1) * 10;
    if (!history.Add({step, losses[i], 0}).stop.empty()) {
      return static_cast<int>(i) + 1;
    }
  }
  return -1;
}

TEST(EvaluationHistoryTest, StopsWhenNothingImprovesForPatienceEvaluations) {
  const EvaluationHistory history(JobWithPatience(2));
  EXPECT_EQ(StopsAfter(history, {3, 2, 1, 0.5}), -1);
  EXPECT_EQ(StopsAfter(history, {3, 2, 2, 2}), 4);
  EXPECT_EQ(StopsAfter(history, {3, 4, 2, 3, 1}), -1);
  EXPECT_EQ(StopsAfter(history, {3, 4, 3.5}), 3);
}

TEST(EvaluationHistoryTest, AnImprovementMustExceedMinDelta) {
  EXPECT_EQ(
      StopsAfter(EvaluationHistory(JobWithPatience(2, 0.5)), {3, 2.75, 2.5, 0}),
      3);
  // Many small steps add up: each is compared with the last improvement.
  EXPECT_EQ(StopsAfter(EvaluationHistory(JobWithPatience(2, 0.5)),
                       {3, 2.75, 2.25, 2.25, 1}),
            -1);
}

TEST(EvaluationHistoryTest, AHigherAucIsBetter) {
  JobSpec job = JobWithPatience(2);
  job.mutable_stop_when()->set_metric(EvaluationMetric::EVALUATION_AUC);
  job.mutable_stop_when()->set_target(0.8);
  job.mutable_checkpoint()->set_best(EvaluationMetric::EVALUATION_AUC);
  EvaluationHistory history(job);
  const auto add = [&](double auc) {
    return history.Add({/*step=*/1, /*loss=*/0, 0, {{"auc", auc}}});
  };
  EXPECT_TRUE(add(0.7).best);
  EXPECT_FALSE(add(0.6).best);
  EXPECT_THAT(add(0.75).stop, IsEmpty());
  EXPECT_THAT(add(0.81).stop, HasSubstr("evaluation AUC"));
  // An evaluation without an AUC is not better.
  EXPECT_FALSE(history.Add({2, 0, 0}).best);
}

TEST(EvaluationHistoryTest, NanIsNoImprovement) {
  EXPECT_EQ(StopsAfter(EvaluationHistory(JobWithPatience(2)), {NAN, NAN, 1}),
            2);
  EXPECT_EQ(StopsAfter(EvaluationHistory(JobWithPatience(2)),
                       {NAN, 5, NAN, 4, NAN, 3}),
            -1);
}

TEST(EvaluationHistoryTest, StopsAtTheTarget) {
  JobSpec job;
  job.mutable_stop_when()->set_target(1.5);
  EXPECT_EQ(StopsAfter(EvaluationHistory(job), {3, 1.6, NAN, 1.5}), 4);
  EXPECT_EQ(StopsAfter(EvaluationHistory(job), {3, 1.6}), -1);
  job.mutable_stop_when()->set_metric(EvaluationMetric::EVALUATION_ACCURACY);
  job.mutable_stop_when()->set_target(0.9);
  EvaluationHistory history(job);
  EXPECT_THAT(history.Add({10, 1, 0.8}).stop, IsEmpty());
  EXPECT_THAT(history.Add({20, 1, 0.95}).stop,
              HasSubstr("evaluation accuracy 0.95 has reached"));
}

TEST(EvaluationHistoryTest, FindsTheBestVersion) {
  JobSpec job;
  job.mutable_checkpoint()->set_best(EvaluationMetric::EVALUATION_ACCURACY);
  EvaluationHistory history(job);
  EXPECT_FALSE(history.Add({10, 1, NAN}).best);
  EXPECT_TRUE(history.Add({20, 1, 0.5}).best);
  EXPECT_FALSE(history.Add({30, 0, 0.5}).best);
  EXPECT_TRUE(history.Add({40, 2, 0.6}).best);
  EXPECT_FALSE(history.Add({50, 0, 0.4}).best);
  EXPECT_EQ(history.best_step(), 40);
  EXPECT_EQ(history.best_result(), 0.6);
}

TEST(EvaluationHistoryTest, AnInterruptionChangesNothing) {
  const std::vector<double> losses = {3, 2, 2.5, 1.5, 1.75, 1.6, 1.7, 1};
  JobSpec job = JobWithPatience(3);
  job.mutable_checkpoint()->set_best(EvaluationMetric::EVALUATION_LOSS);
  for (size_t interrupted = 0; interrupted < losses.size(); ++interrupted) {
    EvaluationHistory whole(job);
    EvaluationHistory parts(job);
    for (size_t i = 0; i < losses.size(); ++i) {
      if (i == interrupted) {
        JobState state;
        parts.Save(&state);
        JobState read;
        ASSERT_TRUE(read.ParseFromString(state.SerializeAsString()));
        parts = EvaluationHistory(job);
        parts.Restore(read);
      }
      const Evaluation next = {static_cast<int64_t>(i), losses[i], 0};
      const auto expected = whole.Add(next);
      const auto got = parts.Add(next);
      EXPECT_EQ(got.best, expected.best) << interrupted << " " << i;
      EXPECT_EQ(got.stop, expected.stop) << interrupted << " " << i;
    }
  }
}

// A job may resume with another metric; see ResultChanges.
TEST(EvaluationHistoryTest, ForgetsTheResultsOfAnotherMetric) {
  JobSpec job = JobWithPatience(2);
  job.mutable_checkpoint()->set_best(EvaluationMetric::EVALUATION_LOSS);
  EvaluationHistory losses(job);
  losses.Add({10, 0.75, 0.5});
  losses.Add({20, 0.875, 0.5});
  JobState state;
  losses.Save(&state);

  job.mutable_checkpoint()->set_best(EvaluationMetric::EVALUATION_ACCURACY);
  job.mutable_stop_when()->set_metric(EvaluationMetric::EVALUATION_ACCURACY);
  EvaluationHistory accuracies(job);
  accuracies.Restore(state);
  const auto first = accuracies.Add({30, 0.9, 0.625});
  EXPECT_TRUE(first.best);
  EXPECT_THAT(first.stop, IsEmpty());
  EXPECT_EQ(accuracies.best_result(), 0.625);
}

}  // namespace
}  // namespace tributary
