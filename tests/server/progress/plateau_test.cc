#include "server/progress/plateau.h"

#include <cmath>
#include <limits>
#include <string>

#include "common/job/job.h"
#include "gtest/gtest.h"
#include "tests/server/progress/plateau_golden.h"

namespace tributary {
namespace {

JobSpec Job(const std::string& schedule) {
  JobSpec job;
  job.mutable_optimizer()->mutable_sgd()->set_learning_rate(0.4);
  EXPECT_EQ(SetField(&job, "schedule={" + schedule + "}"), absl::OkStatus());
  return job;
}

// The results of make_plateau_golden.py.
Evaluation Result(int i) {
  i %= 20;
  const double loss = i % 7 == 6 ? std::numeric_limits<double>::quiet_NaN()
                                 : (3 + ((i * 37) % 11) / 10.0) / (1 + i / 8.0);
  Evaluation evaluation;
  evaluation.loss = loss;
  evaluation.accuracy = 1 - loss / 10;
  return evaluation;
}

// Adds the results to a Plateau that is created anew, from its state, before
// each of them.
void ExpectRates(const std::string& schedule,
                 const double (&rates)[kPlateauCount]) {
  const JobSpec job = Job(schedule);
  JobState state;
  for (int i = 0; i < kPlateauCount; ++i) {
    Plateau plateau(job);
    plateau.Restore(state);
    plateau.Add(Result(i));
    EXPECT_NEAR(0.4 * *plateau.factor(), rates[i], 1e-15) << schedule << i;
    state.Clear();
    plateau.Save(&state);
  }
}

TEST(PlateauTest, HasTheRatesOfPyTorch) {
  ExpectRates("decay: PLATEAU decay_factor: 0.5 patience: 2 threshold: 0.01",
              kPlateauLoss);
  ExpectRates(
      "decay: PLATEAU decay_factor: 0.3 patience: 0 cooldown: 3 "
      "final_learning_rate: 0.001",
      kPlateauCooldown);
  ExpectRates(
      "decay: PLATEAU decay_factor: 0.1 patience: 3 threshold: 0.05 "
      "cooldown: 1 metric: EVALUATION_ACCURACY",
      kPlateauAccuracy);
}

TEST(PlateauTest, KeepsTheFactorWhenTheMetricChanges) {
  Plateau loss(Job("decay: PLATEAU decay_factor: 0.5 patience: 0"));
  for (const int i : {0, 6}) loss.Add(Result(i));
  EXPECT_EQ(loss.factor(), 0.5);
  JobState state;
  loss.Save(&state);
  Plateau accuracy(
      Job("decay: PLATEAU decay_factor: 0.5 patience: 0 metric: "
          "EVALUATION_ACCURACY"));
  accuracy.Restore(state);
  // The first result, with which later ones are compared.
  accuracy.Add(Result(0));
  EXPECT_EQ(accuracy.factor(), 0.5);
}

TEST(PlateauTest, OtherSchedulesHaveNoFactor) {
  Plateau plateau(Job("decay: COSINE"));
  plateau.Add(Result(0));
  EXPECT_FALSE(plateau.factor().has_value());
  JobState state;
  plateau.Save(&state);
  EXPECT_FALSE(state.has_plateau_factor());
  state.set_plateau_factor(0.5);
  plateau.Restore(state);
  EXPECT_FALSE(plateau.factor().has_value());
}

}  // namespace
}  // namespace tributary
