#include "common/base/shutdown.h"

#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;

TEST(ShutdownTest, RunsCallbacksOnceInTheirOrder) {
  Shutdown shutdown;
  std::vector<int> ran;
  const auto first = shutdown.OnRequest([&] { ran.push_back(1); });
  const auto second = shutdown.OnRequest([&] { ran.push_back(2); });
  EXPECT_FALSE(shutdown.requested());
  EXPECT_FALSE(shutdown.AwaitRequest(absl::ZeroDuration()));
  shutdown.Request();
  shutdown.Request();
  EXPECT_TRUE(shutdown.requested());
  EXPECT_TRUE(shutdown.AwaitRequest(absl::InfiniteDuration()));
  EXPECT_THAT(ran, ElementsAre(1, 2));
}

TEST(ShutdownTest, RunsACallbackAtOnceAfterTheRequest) {
  Shutdown shutdown;
  shutdown.Request();
  bool ran = false;
  const auto registration = shutdown.OnRequest([&] { ran = true; });
  EXPECT_TRUE(ran);
}

TEST(ShutdownTest, ForgetsACallbackWithItsRegistration) {
  Shutdown shutdown;
  std::vector<int> ran;
  {
    const auto gone = shutdown.OnRequest([&] { ran.push_back(1); });
  }
  const auto kept = shutdown.OnRequest([&] { ran.push_back(2); });
  shutdown.Request();
  EXPECT_THAT(ran, ElementsAre(2));
}

// What the callback refers to may go with the registration.
TEST(ShutdownTest, EndsNoRegistrationWhileItsCallbackRuns) {
  Shutdown shutdown;
  absl::Notification begun;
  absl::Notification may_end;
  bool ended = false;
  std::thread requester;
  {
    const auto registration = shutdown.OnRequest([&] {
      begun.Notify();
      may_end.WaitForNotification();
      ended = true;
    });
    requester = std::thread([&] { shutdown.Request(); });
    begun.WaitForNotification();
    may_end.Notify();
  }
  EXPECT_TRUE(ended);
  requester.join();
}

}  // namespace
}  // namespace tributary
