#include "deploy/launch/plan/local_timing.h"

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

TEST(EnoughRepetitionsTest, FastOnesAreRepeatedForASecond) {
  EXPECT_FALSE(EnoughRepetitions(0, absl::ZeroDuration()));
  EXPECT_FALSE(EnoughRepetitions(1000, absl::Milliseconds(999)));
  EXPECT_TRUE(EnoughRepetitions(1000, absl::Seconds(1)));
}

TEST(EnoughRepetitionsTest, SlowOnesAreRepeatedThreeTimes) {
  EXPECT_FALSE(EnoughRepetitions(3, absl::Seconds(6)));
  EXPECT_TRUE(EnoughRepetitions(4, absl::Seconds(8)));
}

TEST(EnoughRepetitionsTest, VerySlowOnesAreNotRepeated) {
  EXPECT_FALSE(EnoughRepetitions(0, absl::Seconds(20)));
  EXPECT_TRUE(EnoughRepetitions(1, absl::Minutes(3)));
}

}  // namespace
}  // namespace tributary
