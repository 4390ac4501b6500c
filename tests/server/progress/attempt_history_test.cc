#include "server/progress/attempt_history.h"

#include "gtest/gtest.h"

namespace tributary {
namespace {

absl::Time At(int second) { return absl::UnixEpoch() + absl::Seconds(second); }

TEST(AttemptHistoryTest, TrustsMemoryUntilItFailedThreeTimesInARow) {
  AttemptHistory history;
  EXPECT_TRUE(history.trusts_memory());
  history.Add(/*trained=*/false, /*memory_failed=*/true, At(1));
  history.Add(false, true, At(2));
  // What did not fail of memory changes nothing.
  history.Add(false, false, At(3));
  EXPECT_TRUE(history.trusts_memory());
  history.Add(false, true, At(4));
  EXPECT_FALSE(history.trusts_memory());
  history.Add(/*trained=*/true, false, At(5));
  EXPECT_TRUE(history.trusts_memory());
}

TEST(AttemptHistoryTest, CountsTheTimeWithoutTraining) {
  AttemptHistory history;
  EXPECT_LE(history.stuck(), absl::ZeroDuration());
  history.Add(/*trained=*/true, false, At(10));
  EXPECT_LE(history.stuck(), absl::ZeroDuration());
  history.Add(/*trained=*/false, false, At(20));
  EXPECT_EQ(history.stuck(), absl::ZeroDuration());
  history.Add(false, false, At(25));
  history.Add(false, true, At(37));
  EXPECT_EQ(history.stuck(), absl::Seconds(17));
  history.Add(true, false, At(38));
  EXPECT_LE(history.stuck(), absl::ZeroDuration());
}

}  // namespace
}  // namespace tributary
