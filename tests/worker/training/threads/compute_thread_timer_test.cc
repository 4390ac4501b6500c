#include "worker/training/threads/compute_thread_timer.h"

#include "gtest/gtest.h"

namespace tributary {
namespace {

TEST(ComputeThreadTimer, MeasuresEachActivity) {
  absl::Time now = absl::UnixEpoch();
  ComputeThreadTimer timer([&] { return now; });
  const auto spend = [&](Activity activity, int seconds) {
    timer.Switch(activity);
    EXPECT_EQ(timer.activity(), activity);
    now += absl::Seconds(seconds);
  };
  spend(Activity::kForward, 1);
  spend(Activity::kExchange, 2);
  spend(Activity::kForward, 4);
  spend(Activity::kBackward, 8);
  spend(Activity::kIdle, 16);
  spend(Activity::kData, 32);  // Not counted before it has ended.
  TimeSpent spent = timer.Take();
  EXPECT_EQ(spent[Activity::kForward], absl::Seconds(5));
  EXPECT_EQ(spent[Activity::kExchange], absl::Seconds(2));
  EXPECT_EQ(spent[Activity::kBackward], absl::Seconds(8));
  EXPECT_EQ(spent[Activity::kIdle], absl::Seconds(16));
  EXPECT_EQ(spent.Total(), absl::Seconds(15));
  timer.Switch(Activity::kIdle);
  EXPECT_EQ(timer.spent()[Activity::kData], absl::Seconds(32));
  EXPECT_EQ(timer.spent().Total(), absl::Seconds(32));

  spent.Add(timer.Take());
  spent.Scale(0.5);
  EXPECT_EQ(spent[Activity::kData], absl::Seconds(16));
  EXPECT_EQ(spent[Activity::kForward], absl::Seconds(2.5));
}

TEST(ComputeThreadTimer, NamesActivitiesAsHeartbeatsDo) {
  EXPECT_STREQ(ActivityName(Activity::kIdle), "idle");
  EXPECT_STREQ(ActivityName(Activity::kData), "data");
  EXPECT_STREQ(ActivityName(Activity::kForward), "forward");
  EXPECT_STREQ(ActivityName(Activity::kBackward), "backward");
  EXPECT_STREQ(ActivityName(Activity::kExchange), "exchange");
  EXPECT_STREQ(ActivityName(Activity::kEvaluate), "evaluate");
}

}  // namespace
}  // namespace tributary
