#include "server/leaf_speed.h"

#include <limits>

#include "gtest/gtest.h"

namespace tributary {
namespace {

const absl::Time kStart = absl::UnixEpoch();

class LeafSpeedTest : public ::testing::Test {
 protected:
  // A heartbeat after `leaves` more, each of which took `seconds`.
  void Compute(int leaves, double seconds) {
    statistics_.set_leaves(statistics_.leaves() + leaves);
    statistics_.set_leaf_seconds(statistics_.leaf_seconds() + leaves * seconds);
    speed_.Add(statistics_);
  }

  ProcessStatistics statistics_;
  LeafSpeed speed_;
};

TEST_F(LeafSpeedTest, IsUnknownBeforeTheFirstLeaf) {
  EXPECT_FALSE(speed_.seconds(kStart).has_value());
  statistics_.set_threads(3);
  speed_.Add(statistics_);
  EXPECT_FALSE(speed_.seconds(kStart).has_value());
  EXPECT_FALSE(speed_.fresh());
  EXPECT_EQ(speed_.threads(), 3);
}

TEST_F(LeafSpeedTest, IsFreshAfterThreeHeartbeatsWithLeaves) {
  for (int i = 0; i < 2; ++i) {
    Compute(10, 0.01);
    speed_.Add(statistics_);  // Nothing new.
  }
  EXPECT_FALSE(speed_.fresh());
  Compute(10, 0.01);
  EXPECT_TRUE(speed_.fresh());
  EXPECT_NEAR(*speed_.seconds(kStart), 0.01, 1e-12);
}

TEST_F(LeafSpeedTest, OneLongLeafIsEnough) {
  Compute(1, 20);
  EXPECT_TRUE(speed_.fresh());
}

TEST_F(LeafSpeedTest, ForgetsAHiccupButFollowsAChange) {
  for (int i = 0; i < 5; ++i) Compute(10, 0.01);
  Compute(1, 2);
  Compute(1, 2);
  EXPECT_NEAR(*speed_.seconds(kStart), 0.01, 1e-12);
  Compute(1, 2);
  EXPECT_NEAR(*speed_.seconds(kStart), 2, 1e-12);
}

TEST_F(LeafSpeedTest, KeepsTheOldMeasurementUntilTheNewOneIsFresh) {
  for (int i = 0; i < 3; ++i) Compute(10, 0.01);
  speed_.Restart(/*has_leaves=*/true, kStart);
  EXPECT_FALSE(speed_.fresh());
  for (int i = 0; i < 2; ++i) {
    Compute(10, 0.02);
    EXPECT_NEAR(*speed_.seconds(kStart), 0.01, 1e-12);
  }
  Compute(10, 0.02);
  EXPECT_NEAR(*speed_.seconds(kStart), 0.02, 1e-12);
}

TEST_F(LeafSpeedTest, AnIdleWorkerGetsAnotherTryInTheEnd) {
  for (int i = 0; i < 3; ++i) Compute(10, 0.8);
  speed_.Restart(/*has_leaves=*/false, kStart);
  const absl::Duration forget = LeafSpeed::kForget;
  EXPECT_NEAR(*speed_.seconds(kStart + 0.9 * forget), 0.8, 1e-12);
  EXPECT_NEAR(*speed_.seconds(kStart + 1.1 * forget), 0.4, 1e-12);
  // Still without leaves.
  speed_.Restart(/*has_leaves=*/false, kStart + 1.1 * forget);
  EXPECT_NEAR(*speed_.seconds(kStart + 2.1 * forget), 0.2, 1e-12);
  speed_.Restart(/*has_leaves=*/true, kStart + 2.1 * forget);
  EXPECT_NEAR(*speed_.seconds(kStart + 9 * forget), 0.8, 1e-12);
}

TEST_F(LeafSpeedTest, IgnoresCountersThatMakeNoSense) {
  for (int i = 0; i < 3; ++i) Compute(10, 0.01);
  ProcessStatistics odd = statistics_;
  odd.set_leaves(odd.leaves() + 1);
  for (const double seconds :
       {std::numeric_limits<double>::infinity(),
        std::numeric_limits<double>::quiet_NaN(), -1.0}) {
    odd.set_leaf_seconds(seconds);
    speed_.Add(odd);
  }
  odd.set_leaves(-5);
  odd.set_leaf_seconds(100);
  odd.set_threads(-2);
  speed_.Add(odd);
  EXPECT_NEAR(*speed_.seconds(kStart), 0.01, 1e-12);
  EXPECT_EQ(speed_.threads(), 1);
}

}  // namespace
}  // namespace tributary
