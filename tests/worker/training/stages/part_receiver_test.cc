#include "worker/training/stages/part_receiver.h"

#include "absl/status/status.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

TEST(PartReceiverTest, ReturnsResultsInTheOrderOfTheCalls) {
  PartReceiver receiver(/*routes=*/1);
  absl::Notification arrived;
  receiver.Add([&](int) {
    arrived.WaitForNotification();
    return absl::OkStatus();
  });
  receiver.Add(
      [](int) { return absl::AbortedError("the assignment is over"); });
  EXPECT_FALSE(receiver.Take(/*wait=*/false).has_value());
  arrived.Notify();
  EXPECT_EQ(receiver.Take(/*wait=*/true), absl::OkStatus());
  EXPECT_THAT(*receiver.Take(/*wait=*/true),
              StatusIs(absl::StatusCode::kAborted));
}

TEST(PartReceiverTest, ARouteDoesNotWaitForAnother) {
  PartReceiver receiver(/*routes=*/2);
  absl::Notification second;
  for (int i = 0; i < 2; ++i) {
    receiver.Add([&, i](int route) {
      if (route == 0) second.WaitForNotification();
      if (route == 1 && i == 1) second.Notify();
      return absl::OkStatus();
    });
  }
  EXPECT_EQ(receiver.Take(/*wait=*/true), absl::OkStatus());
  EXPECT_EQ(receiver.Take(/*wait=*/true), absl::OkStatus());
}

TEST(PartReceiverTest, DiscardWaitsForAllCalls) {
  PartReceiver receiver(/*routes=*/1);
  int done = 0;
  for (int i = 0; i < 3; ++i) {
    receiver.Add([&](int) {
      ++done;
      return absl::OkStatus();
    });
  }
  receiver.Discard();
  EXPECT_EQ(done, 3);
  EXPECT_FALSE(receiver.Take(/*wait=*/false).has_value());
}

}  // namespace
}  // namespace tributary
