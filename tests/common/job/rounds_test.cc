#include "common/job/rounds.h"

#include "common/job/job.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

JobSpec JobWithRounds(const std::string& consistency) {
  JobSpec job;
  job.mutable_optimizer()->mutable_adamw()->set_learning_rate(0.001);
  job.mutable_schedule()->set_warmup_steps(10);
  job.set_clip_norm(1);
  EXPECT_TRUE(SetField(&job, "exchange.parameter_server.consistency={" +
                                 consistency + "}")
                  .ok());
  return job;
}

TEST(RoundsTest, AreStepsUnlessStepsAreLocal) {
  for (const char* consistency : {"", "synchronous {}"}) {
    const Rounds rounds(JobWithRounds(consistency), 7);
    EXPECT_EQ(rounds.count(), 7);
    EXPECT_EQ(rounds.StepsAfter(0), 0);
    EXPECT_EQ(rounds.StepsAfter(5), 5);
    EXPECT_EQ(rounds.RoundsFor(5), 5);
  }
}

TEST(RoundsTest, GroupLocalStepsAndTheLastRoundMayBeShort) {
  const Rounds rounds(JobWithRounds("local_steps { inner_steps: 3 }"), 8);
  EXPECT_EQ(rounds.count(), 3);
  EXPECT_EQ(rounds.StepsAfter(0), 0);
  EXPECT_EQ(rounds.StepsAfter(1), 3);
  EXPECT_EQ(rounds.StepsAfter(2), 6);
  EXPECT_EQ(rounds.StepsAfter(3), 8);
  EXPECT_EQ(rounds.RoundsFor(0), 0);
  EXPECT_EQ(rounds.RoundsFor(1), 1);
  EXPECT_EQ(rounds.RoundsFor(3), 1);
  EXPECT_EQ(rounds.RoundsFor(4), 2);
}

TEST(RoundsTest, MayBeLongerThanTheJob) {
  const int64_t most = int64_t{1} << 40;
  const Rounds rounds(JobWithRounds("local_steps { inner_steps: " +
                                    std::to_string(most) + " }"),
                      most - 1);
  EXPECT_EQ(rounds.count(), 1);
  EXPECT_EQ(rounds.StepsAfter(1), most - 1);
}

TEST(JobOfRoundsTest, ChangesNothingWithoutLocalSteps) {
  const JobSpec job = JobWithRounds("synchronous {}");
  EXPECT_EQ(JobOfRounds(job).SerializeAsString(), job.SerializeAsString());
}

TEST(JobOfRoundsTest, RunsTheOuterOptimizerAlone) {
  const JobSpec outer = JobOfRounds(
      JobWithRounds("local_steps { outer_optimizer { learning_rate: 0.25 } }"));
  ASSERT_TRUE(outer.optimizer().has_sgd());
  EXPECT_EQ(outer.optimizer().sgd().learning_rate(), 0.25);
  EXPECT_EQ(outer.optimizer().sgd().momentum(), 0.9);
  EXPECT_TRUE(outer.optimizer().sgd().nesterov());
  EXPECT_EQ(outer.optimizer().sgd().weight_decay(), 0);
  EXPECT_FALSE(outer.has_schedule());
  EXPECT_EQ(outer.clip_norm(), 0);
}

TEST(StatisticsRateTest, IsOneWithLocalSgd) {
  EXPECT_EQ(StatisticsRate(JobWithRounds("asynchronous {}")), 0.1);
  EXPECT_EQ(StatisticsRate(JobWithRounds("local_steps {}")), 1);
  EXPECT_EQ(StatisticsRate(JobOfRounds(JobWithRounds("local_steps {}"))), 1);
}

}  // namespace
}  // namespace tributary
