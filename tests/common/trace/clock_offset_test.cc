#include "common/trace/clock_offset.h"

#include <cstdint>
#include <cstdlib>

#include "gtest/gtest.h"

namespace tributary {
namespace {

ClockReading Reading(int64_t sent, int64_t coordinator) {
  ClockReading reading;
  reading.set_sent_ns(sent);
  reading.set_coordinator_ns(coordinator);
  return reading;
}

TEST(ClockOffsetTest, IsUnknownAtFirst) {
  EXPECT_EQ(ClockOffset().error_ns(), ClockOffset::kUnknown);
  EXPECT_EQ(ClockOffset::OfCoordinator().error_ns(), 0);
}

TEST(ClockOffsetTest, TheShortestRoundTripCounts) {
  ClockOffset offset;
  offset.Add(Reading(1000, 5600), 2000);  // 1000 ns.
  EXPECT_EQ(offset.offset_ns(), 4100);
  EXPECT_EQ(offset.error_ns(), 500);
  offset.Add(Reading(3000, 7051), 3101);  // 101 ns.
  EXPECT_EQ(offset.offset_ns(), 4001);
  EXPECT_EQ(offset.error_ns(), 51);
  offset.Add(Reading(4000, 9000), 9000);
  EXPECT_EQ(offset.error_ns(), 51);
  EXPECT_EQ(offset.count(), 3);
}

TEST(ClockOffsetTest, IgnoresAnswersFromTheFuture) {
  ClockOffset offset;
  offset.Add(Reading(1000, 0), 999);
  EXPECT_EQ(offset.count(), 0);
  EXPECT_EQ(offset.error_ns(), ClockOffset::kUnknown);
}

TEST(ClockOffsetTest, IgnoresTimesThatWouldOverflow) {
  ClockOffset offset;
  offset.Add(Reading(INT64_MIN, 0), 1000);
  offset.Add(Reading(1000, INT64_MIN), 2000);
  EXPECT_EQ(offset.count(), 0);
  EXPECT_EQ(offset.offset_ns(), 0);
}

// The stated error is never smaller than the true one, however the delays of
// the two directions differ.
TEST(ClockOffsetTest, TheErrorIsABound) {
  constexpr int64_t kTrue = -123456789;
  uint64_t random = 1;
  const auto next = [&random](int64_t most) {
    random = random * 6364136223846793005U + 1442695040888963407U;
    return static_cast<int64_t>((random >> 33) % static_cast<uint64_t>(most));
  };
  for (int run = 0; run < 1000; ++run) {
    ClockOffset offset;
    int64_t now = 1000000;
    for (int probe = 0; probe < 4; ++probe) {
      const int64_t there = next(10000);
      const int64_t back = next(100);
      offset.Add(Reading(now, now + there + kTrue), now + there + back);
      now += 20000;
    }
    ASSERT_LE(std::abs(offset.offset_ns() - kTrue), offset.error_ns());
  }
}

}  // namespace
}  // namespace tributary
