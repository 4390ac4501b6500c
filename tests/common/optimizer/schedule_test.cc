#include "common/optimizer/schedule.h"

#include <cmath>

#include "common/job/job.h"
#include "gtest/gtest.h"

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

TEST(ScheduleTest, WorksWhereTheWarmupIsTheWholeJob) {
  const JobSpec job = Job("{warmup_steps: 10 decay: COSINE}");
  EXPECT_EQ(LearningRateAt(job, 10, 9), 1.0);
  EXPECT_EQ(LearningRateAt(job, 10, 10), 0.0);
}

}  // namespace
}  // namespace tributary
