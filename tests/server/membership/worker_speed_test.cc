#include "server/membership/worker_speed.h"

#include <limits>

#include "gtest/gtest.h"

namespace tributary {
namespace {

const absl::Time kFirstHeartbeat = absl::UnixEpoch();

class WorkerSpeedTest : public ::testing::Test {
 protected:
  // A heartbeat after `micro_batches` more, each of which took `seconds`.
  void Compute(int micro_batches, double seconds) {
    statistics_.set_leaves(statistics_.leaves() + micro_batches);
    statistics_.set_leaf_seconds(statistics_.leaf_seconds() +
                                 micro_batches * seconds);
    speed_.Add(statistics_, waiting_);
  }

  ProcessStatistics statistics_;
  double waiting_ = 0;
  WorkerSpeed speed_;
};

TEST_F(WorkerSpeedTest, IsUnknownBeforeTheFirstMicroBatch) {
  EXPECT_FALSE(speed_.micro_batch_seconds(kFirstHeartbeat).has_value());
  statistics_.set_threads(3);
  speed_.Add(statistics_, waiting_);
  EXPECT_FALSE(speed_.micro_batch_seconds(kFirstHeartbeat).has_value());
  EXPECT_FALSE(speed_.fresh());
  EXPECT_EQ(speed_.threads(), 3);
}

TEST_F(WorkerSpeedTest, IsFreshAfterFiveHeartbeatsWithMicroBatches) {
  for (int i = 0; i < 4; ++i) {
    Compute(10, 0.01);
    speed_.Add(statistics_, waiting_);  // Nothing new.
  }
  EXPECT_FALSE(speed_.fresh());
  Compute(10, 0.01);
  EXPECT_TRUE(speed_.fresh());
  EXPECT_NEAR(*speed_.micro_batch_seconds(kFirstHeartbeat), 0.01, 1e-12);
}

TEST_F(WorkerSpeedTest, OneLongMicroBatchIsEnough) {
  Compute(1, 20);
  EXPECT_TRUE(speed_.fresh());
}

TEST_F(WorkerSpeedTest, ForgetsAHiccupButFollowsAChange) {
  for (int i = 0; i < 5; ++i) Compute(10, 0.01);
  Compute(1, 2);
  Compute(1, 2);
  EXPECT_NEAR(*speed_.micro_batch_seconds(kFirstHeartbeat), 0.01, 1e-12);
  Compute(1, 2);
  EXPECT_NEAR(*speed_.micro_batch_seconds(kFirstHeartbeat), 2, 1e-12);
}

TEST_F(WorkerSpeedTest, KeepsTheOldMeasurementUntilTheNewOneIsFresh) {
  for (int i = 0; i < 5; ++i) Compute(10, 0.01);
  speed_.Restart(/*has_micro_batches=*/true, kFirstHeartbeat);
  EXPECT_FALSE(speed_.fresh());
  for (int i = 0; i < 4; ++i) {
    Compute(10, 0.02);
    EXPECT_NEAR(*speed_.micro_batch_seconds(kFirstHeartbeat), 0.01, 1e-12);
  }
  Compute(10, 0.02);
  EXPECT_NEAR(*speed_.micro_batch_seconds(kFirstHeartbeat), 0.02, 1e-12);
}

TEST_F(WorkerSpeedTest, AnIdleWorkerGetsAnotherTryInTheEnd) {
  for (int i = 0; i < 3; ++i) Compute(10, 0.8);
  speed_.Restart(/*has_micro_batches=*/false, kFirstHeartbeat);
  const absl::Duration half_life = WorkerSpeed::kHalfLife;
  EXPECT_NEAR(*speed_.micro_batch_seconds(kFirstHeartbeat + 0.9 * half_life),
              0.8, 1e-12);
  EXPECT_NEAR(*speed_.micro_batch_seconds(kFirstHeartbeat + 1.1 * half_life),
              0.4, 1e-12);
  // Still without micro-batches.
  speed_.Restart(/*has_micro_batches=*/false,
                 kFirstHeartbeat + 1.1 * half_life);
  EXPECT_NEAR(*speed_.micro_batch_seconds(kFirstHeartbeat + 2.1 * half_life),
              0.2, 1e-12);
  speed_.Restart(/*has_micro_batches=*/true, kFirstHeartbeat + 2.1 * half_life);
  EXPECT_NEAR(*speed_.micro_batch_seconds(kFirstHeartbeat + 9 * half_life), 0.8,
              1e-12);
}

TEST_F(WorkerSpeedTest, TheExchangeIsWhatIsNotWaitingForOthers) {
  EXPECT_EQ(speed_.exchange_seconds(), 0);
  for (const double exchange : {0.5, 0.1, 3.0}) {  // A step each.
    statistics_.set_steps(statistics_.steps() + 2);
    statistics_.set_exchange_seconds(statistics_.exchange_seconds() +
                                     2 * exchange + 0.25);
    waiting_ += 0.25;
    Compute(10, 0.01);
  }
  EXPECT_NEAR(speed_.exchange_seconds(), 0.5, 1e-9);
  speed_.Restart(/*has_micro_batches=*/true, kFirstHeartbeat);
  EXPECT_EQ(speed_.exchange_seconds(), 0);
  // A wait that was counted before the time that it took.
  waiting_ += 1;
  statistics_.set_steps(statistics_.steps() + 1);
  Compute(10, 0.01);
  EXPECT_EQ(speed_.exchange_seconds(), 0);
}

TEST_F(WorkerSpeedTest, IgnoresCountersThatMakeNoSense) {
  for (int i = 0; i < 3; ++i) Compute(10, 0.01);
  ProcessStatistics odd = statistics_;
  odd.set_leaves(odd.leaves() + 1);
  for (const double seconds :
       {std::numeric_limits<double>::infinity(),
        std::numeric_limits<double>::quiet_NaN(), -1.0}) {
    odd.set_leaf_seconds(seconds);
    speed_.Add(odd, 0);
  }
  odd.set_leaves(-5);
  odd.set_leaf_seconds(100);
  odd.set_threads(-2);
  speed_.Add(odd, 0);
  EXPECT_NEAR(*speed_.micro_batch_seconds(kFirstHeartbeat), 0.01, 1e-12);
  EXPECT_EQ(speed_.threads(), 1);
}

}  // namespace
}  // namespace tributary
