#include "worker/training/part_receiver.h"

#include "absl/status/status.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

TEST(PartReceiverTest, ReturnsResultsInTheOrderOfTheCalls) {
  PartReceiver receiver;
  absl::Notification arrived;
  receiver.Add([&] {
    arrived.WaitForNotification();
    return absl::OkStatus();
  });
  receiver.Add([] { return absl::AbortedError("the assignment is over"); });
  EXPECT_FALSE(receiver.Take(/*wait=*/false).has_value());
  arrived.Notify();
  EXPECT_EQ(receiver.Take(/*wait=*/true), absl::OkStatus());
  EXPECT_THAT(*receiver.Take(/*wait=*/true),
              StatusIs(absl::StatusCode::kAborted));
}

TEST(PartReceiverTest, DiscardWaitsForAllCalls) {
  PartReceiver receiver;
  int done = 0;
  for (int i = 0; i < 3; ++i) {
    receiver.Add([&] {
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
