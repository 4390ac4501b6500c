#include "common/optimizer/schedule.h"

#include <cmath>

#include "common/job/job.h"
#include "gtest/gtest.h"
#include "tests/common/optimizer/optimizer_golden.h"

namespace tributary {
namespace {

// Our operations differ from the ones written here by a few roundings.
constexpr double kTolerance = 1e-15;

JobSpec Job(const char* schedule) {
  JobSpec job;
  job.mutable_optimizer()->mutable_adamw()->set_learning_rate(1.0);
  EXPECT_TRUE(SetField(&job, std::string("schedule=") + schedule).ok());
  return job;
}

TEST(ScheduleTest, IsConstantByDefault) {
  JobSpec job;
  job.mutable_optimizer()->mutable_sgd()->set_learning_rate(0.25);
  EXPECT_EQ(LearningRateAt(job, 10, 0), 0.25);
  EXPECT_EQ(LearningRateAt(job, 10, 9), 0.25);
}

TEST(ScheduleTest, WarmsUpFromOneShareToThePeak) {
  const JobSpec job = Job("{warmup_steps: 4}");
  EXPECT_EQ(LearningRateAt(job, 10, 0), 0.25);
  EXPECT_EQ(LearningRateAt(job, 10, 1), 0.5);
  EXPECT_EQ(LearningRateAt(job, 10, 3), 1.0);
  EXPECT_EQ(LearningRateAt(job, 10, 4), 1.0);
  EXPECT_EQ(LearningRateAt(job, 10, 9), 1.0);
}

TEST(ScheduleTest, DecaysInAStraightLine) {
  const JobSpec job =
      Job("{warmup_steps: 2 decay: LINEAR decay_steps: 10 "
          "final_learning_rate: 0.2}");
  EXPECT_EQ(LearningRateAt(job, 100, 2), 1.0);
  EXPECT_NEAR(LearningRateAt(job, 100, 6), 0.6, kTolerance);
  EXPECT_NEAR(LearningRateAt(job, 100, 9), 0.3, kTolerance);
  EXPECT_EQ(LearningRateAt(job, 100, 10), 0.2);
  EXPECT_EQ(LearningRateAt(job, 100, 99), 0.2);
}

TEST(ScheduleTest, DecaysAlongACosine) {
  // By hand: cos(pi/4) = 0.7071..., cos(pi/2) = 0, cos(3pi/4) = -0.7071...
  const JobSpec job =
      Job("{warmup_steps: 2 decay: COSINE final_learning_rate: 0.1}");
  EXPECT_EQ(LearningRateAt(job, 10, 1), 1.0);
  EXPECT_EQ(LearningRateAt(job, 10, 2), 1.0);
  EXPECT_NEAR(LearningRateAt(job, 10, 4), 0.1 + 0.45 * 1.7071067811865476,
              kTolerance);
  EXPECT_NEAR(LearningRateAt(job, 10, 6), 0.55, kTolerance);
  EXPECT_NEAR(LearningRateAt(job, 10, 8), 0.1 + 0.45 * 0.2928932188134524,
              kTolerance);
  EXPECT_EQ(LearningRateAt(job, 10, 10), 0.1);
}

TEST(ScheduleTest, FollowsTheLibrarysCosineClosely) {
  const JobSpec job = Job("{decay: COSINE}");
  const double kPi = std::acos(-1.0);
  for (int step = 0; step < 1000; ++step) {
    EXPECT_NEAR(LearningRateAt(job, 1000, step),
                0.5 * (1 + std::cos(kPi * step / 1000)), kTolerance)
        << step;
  }
}

void ExpectGoldenRates(const char* schedule,
                       const double (&golden)[kGoldenRates]) {
  JobSpec job = Job(schedule);
  job.mutable_optimizer()->mutable_sgd()->set_learning_rate(0.3);
  for (int step = 0; step < kGoldenRates; ++step) {
    EXPECT_NEAR(LearningRateAt(job, kGoldenRates, step), golden[step],
                1e-12 * golden[step])
        << schedule << " step " << step;
  }
}

TEST(ScheduleTest, FollowsPyTorch) {
  ExpectGoldenRates("{decay: STEP decay_every_steps: 7 decay_factor: 0.3}",
                    kStepRates);
  ExpectGoldenRates("{decay: EXPONENTIAL decay_factor: 0.9}",
                    kExponentialRates);
  ExpectGoldenRates("{decay: POLYNOMIAL decay_steps: 30 power: 1.7}",
                    kPolynomialRates);
  ExpectGoldenRates(
      "{decay: ONE_CYCLE rise_share: 0.37 rise_divisor: 20 "
      "final_learning_rate: 0.003}",
      kOneCycleRates);
}

TEST(ScheduleTest, CountsStepsAfterTheWarmUp) {
  const JobSpec steps =
      Job("{warmup_steps: 2 decay: STEP decay_every_steps: 3 decay_factor: "
          "0.5}");
  EXPECT_EQ(LearningRateAt(steps, 100, 0), 0.5);
  EXPECT_EQ(LearningRateAt(steps, 100, 4), 1.0);
  EXPECT_EQ(LearningRateAt(steps, 100, 5), 0.5);
  EXPECT_EQ(LearningRateAt(steps, 100, 8), 0.25);
  const JobSpec exponential =
      Job("{warmup_steps: 2 decay: EXPONENTIAL decay_every_steps: 4 "
          "decay_factor: 0.25}");
  EXPECT_EQ(LearningRateAt(exponential, 100, 2), 1.0);
  EXPECT_EQ(LearningRateAt(exponential, 100, 4), 0.5);
  EXPECT_EQ(LearningRateAt(exponential, 100, 6), 0.25);
  EXPECT_NEAR(LearningRateAt(exponential, 100, 7), std::pow(0.25, 1.25),
              kTolerance);
  EXPECT_NEAR(LearningRateAt(exponential, 100, 5), std::pow(0.25, 0.75),
              kTolerance);
}

TEST(ScheduleTest, DecaysAlongAPolynomialToTheFinalRate) {
  const JobSpec job =
      Job("{warmup_steps: 2 decay: POLYNOMIAL power: 2 final_learning_rate: "
          "0.2}");
  EXPECT_EQ(LearningRateAt(job, 10, 2), 1.0);
  EXPECT_NEAR(LearningRateAt(job, 10, 6), 0.4, kTolerance);
  EXPECT_EQ(LearningRateAt(job, 10, 10), 0.2);
  const JobSpec line = Job("{decay: POLYNOMIAL}");
  EXPECT_EQ(LearningRateAt(line, 8, 6), 0.25);
}

TEST(ScheduleTest, OneCycleWorksAtTheEdgesOfItsFields) {
  // The rate is highest in step 3 = 0.5 * 8 - 1.
  const JobSpec half = Job("{decay: ONE_CYCLE rise_share: 0.5}");
  EXPECT_NEAR(LearningRateAt(half, 8, 0), 1 / 25.0, kTolerance);
  EXPECT_EQ(LearningRateAt(half, 8, 3), 1.0);
  EXPECT_NEAR(LearningRateAt(half, 8, 5), 0.5, kTolerance);
  EXPECT_EQ(LearningRateAt(half, 8, 7), 0.0);
  EXPECT_EQ(LearningRateAt(half, 8, 8), 0.0);
  // The rise ends before the first step, in it, or in the last one.
  EXPECT_EQ(LearningRateAt(half, 1, 0), 0.0);
  EXPECT_EQ(LearningRateAt(half, 2, 0), 1.0);
  const JobSpec late = Job("{decay: ONE_CYCLE rise_share: 0.9999999999999999}");
  EXPECT_NEAR(LearningRateAt(late, 8, 6), 0.95, 0.02);
  EXPECT_EQ(LearningRateAt(late, 8, 7), 0.0);
}

TEST(ScheduleTest, LooksUpStepsInTheTable) {
  const JobSpec job =
      Job("{decay: TABLE table {learning_rate: 0.5} table {step: 3 "
          "learning_rate: 1} table {step: 4 learning_rate: 0}}");
  const double expected[] = {0.5, 0.5, 0.5, 1, 0, 0};
  for (int step = 0; step < 6; ++step) {
    EXPECT_EQ(LearningRateAt(job, 6, step), expected[step]) << step;
  }
}

TEST(ScheduleTest, WorksWhereTheWarmupIsTheWholeJob) {
  const JobSpec job = Job("{warmup_steps: 10 decay: COSINE}");
  EXPECT_EQ(LearningRateAt(job, 10, 9), 1.0);
  EXPECT_EQ(LearningRateAt(job, 10, 10), 0.0);
}

}  // namespace
}  // namespace tributary
