#include "worker/exchange/stages/transfer_inbox.h"

#include <memory>
#include <string>
#include <thread>

#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using testing::HasSubstr;

constexpr TransferKey kKey = {5, 1, 0, StageTransfer::ACTIVATION};

ReceivedTransfer Transfer(const std::string& text) {
  const auto owner = std::make_shared<const std::string>(text);
  return {{}, owner->data(), static_cast<int64_t>(owner->size()), owner};
}

class TransferInboxTest : public testing::Test {
 protected:
  TransferInboxTest() { inbox_.BeginEpoch(1, 0); }

  std::string Take(int64_t epoch, int64_t from, const TransferKey& key = kKey) {
    const auto received = inbox_.Receive(epoch, from, key);
    if (!received.ok()) return received.status().ToString();
    return std::string(received->data, received->bytes);
  }

  TransferInbox inbox_;
};

TEST_F(TransferInboxTest, MatchesOnlyTheSenderOfTheRequest) {
  inbox_.Deliver(/*from=*/1, /*epoch=*/1, kKey, Transfer("of worker 1"));
  EXPECT_FALSE(inbox_.ReadyForTest(1, /*from=*/2, kKey));
  inbox_.Deliver(/*from=*/2, /*epoch=*/1, kKey, Transfer("of worker 2"));
  EXPECT_EQ(Take(1, /*from=*/2), "of worker 2");
  // The other one has the same bits, so nobody needs it.
  EXPECT_THAT(inbox_.Receive(1, /*from=*/1, kKey),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(inbox_.held(), 0);
}

TEST_F(TransferInboxTest, DropsTransfersOfOldAssignments) {
  inbox_.Deliver(1, 1, kKey, Transfer("old"));
  inbox_.BeginEpoch(2, 0);
  EXPECT_EQ(inbox_.held(), 0);
  inbox_.Deliver(1, 1, kKey, Transfer("old"));
  EXPECT_EQ(inbox_.held(), 0);
  EXPECT_THAT(inbox_.Receive(1, 1, kKey), StatusIs(absl::StatusCode::kAborted));
}

TEST_F(TransferInboxTest, NewerAssignmentReplacesAHeldTransfer) {
  auto old = std::make_shared<const std::string>("old");
  const std::weak_ptr<const std::string> released = old;
  inbox_.Deliver(1, 1, kKey, {{}, old->data(), 3, std::move(old)});
  inbox_.Deliver(1, 2, kKey, Transfer("new"));
  EXPECT_TRUE(released.expired());
  // A duplicate of an older assignment does not.
  inbox_.Deliver(1, 1, kKey, Transfer("old"));
  EXPECT_FALSE(inbox_.ReadyForTest(1, 1, kKey));
  inbox_.BeginEpoch(2, 0);
  EXPECT_EQ(Take(2, 1), "new");
}

TEST_F(TransferInboxTest, NewEpochComputesStepsAgain) {
  inbox_.Deliver(1, 1, kKey, Transfer("bits"));
  EXPECT_EQ(Take(1, 1), "bits");
  inbox_.EndStep(1, 5);
  // Worker 2 takes over, and knows of epoch 2 before the receiver does.
  inbox_.Deliver(2, 2, kKey, Transfer("bits"));
  const TransferKey before = {4, 1, 0, StageTransfer::ACTIVATION};
  inbox_.Deliver(2, 2, before, Transfer("not again"));
  EXPECT_EQ(inbox_.held(), 2);
  inbox_.BeginEpoch(2, /*first_step=*/5);
  EXPECT_EQ(inbox_.held(), 1);
  EXPECT_THAT(inbox_.Receive(2, 2, before),
              StatusIs(absl::StatusCode::kAborted));
  EXPECT_EQ(Take(2, 2), "bits");
  inbox_.Deliver(2, 2, kKey, Transfer("bits"));
  EXPECT_EQ(inbox_.held(), 0);
}

TEST_F(TransferInboxTest, WaitsForWorkersThatHaveNotConnected) {
  EXPECT_FALSE(inbox_.ReadyForTest(1, 1, kKey));
  const int64_t connection = inbox_.Connect(1);
  EXPECT_FALSE(inbox_.ReadyForTest(1, 1, kKey));
  inbox_.Disconnect(1, connection, absl::InternalError("why"));
  EXPECT_THAT(inbox_.Receive(1, 1, kKey),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("why")));
  EXPECT_FALSE(inbox_.ReadyForTest(1, /*from=*/2, kKey));
  // It may connect again.
  inbox_.Connect(1);
  EXPECT_FALSE(inbox_.ReadyForTest(1, 1, kKey));
}

TEST_F(TransferInboxTest, EndOfAnOldConnectionDoesNotEndTheNewOne) {
  const int64_t old = inbox_.Connect(1);
  const int64_t connection = inbox_.Connect(1);
  inbox_.Disconnect(1, old, absl::OkStatus());
  EXPECT_FALSE(inbox_.ReadyForTest(1, 1, kKey));
  inbox_.Disconnect(1, connection, absl::OkStatus());
  EXPECT_TRUE(inbox_.ReadyForTest(1, 1, kKey));
}

TEST_F(TransferInboxTest, KnowsThatALostWorkerConnectsAgain) {
  inbox_.Disconnect(4, inbox_.Connect(4), absl::OkStatus());
  EXPECT_FALSE(inbox_.AwaitReturn(1, 4, kKey, absl::Milliseconds(1)));
  inbox_.Connect(4);
  EXPECT_TRUE(inbox_.AwaitReturn(1, 4, kKey, absl::ZeroDuration()));
  inbox_.Fail(absl::UnavailableError("lost the server"));
  EXPECT_FALSE(inbox_.AwaitReturn(1, 4, kKey, absl::InfiniteDuration()));
}

TEST_F(TransferInboxTest, NewEpochForgetsEndedConnections) {
  inbox_.Disconnect(1, inbox_.Connect(1), absl::OkStatus());
  inbox_.Connect(2);
  inbox_.BeginEpoch(2, 0);
  EXPECT_FALSE(inbox_.ReadyForTest(2, 1, kKey));
  inbox_.Deliver(2, 2, kKey, Transfer("still connected"));
  EXPECT_EQ(Take(2, 2), "still connected");
}

TEST_F(TransferInboxTest, EpochsAndStepsDoNotGoBack) {
  inbox_.BeginEpoch(3, 0);
  inbox_.BeginEpoch(2, 0);
  EXPECT_EQ(inbox_.epoch(), 3);
  inbox_.EndStep(2, 7);
  EXPECT_FALSE(inbox_.ReadyForTest(3, 1, kKey));
  inbox_.EndStep(3, 5);
  inbox_.EndStep(3, 4);
  EXPECT_THAT(inbox_.Receive(3, 1, kKey),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("step 5")));
}

TEST_F(TransferInboxTest, EvaluationMayEndOneStepLater) {
  const TransferKey piece = {5, 1, 0, StageTransfer::EVALUATION};
  const TransferKey other = {5, 2, 0, StageTransfer::EVALUATION};
  inbox_.Deliver(1, 1, piece, Transfer("piece"));
  inbox_.Deliver(1, 1, kKey, Transfer("micro-batch"));
  inbox_.EndStep(1, 5);
  EXPECT_EQ(Take(1, 1, piece), "piece");
  EXPECT_THAT(inbox_.Receive(1, 1, piece),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  inbox_.Deliver(1, 1, other, Transfer("other piece"));
  EXPECT_EQ(inbox_.held(), 1);
  inbox_.EndStep(1, 6);
  EXPECT_EQ(inbox_.held(), 0);
  EXPECT_THAT(inbox_.Receive(1, 1, piece),
              StatusIs(absl::StatusCode::kAborted));
}

TEST_F(TransferInboxTest, ReleasesDroppedTransfersWithoutItsLock) {
  // The owner of a transfer may call the inbox, as transports may.
  const auto owner = [this] {
    return std::shared_ptr<const void>(this,
                                       [this](const void*) { inbox_.held(); });
  };
  inbox_.Deliver(1, 1, kKey, {{}, nullptr, 0, owner()});
  inbox_.Deliver(1, 1, kKey, {{}, nullptr, 0, owner()});
  inbox_.Deliver(1, 2, kKey, {{}, nullptr, 0, owner()});
  inbox_.BeginEpoch(3, 0);
  inbox_.Deliver(1, 3, kKey, {{}, nullptr, 0, owner()});
  inbox_.EndStep(3, 5);
  inbox_.Deliver(1, 3, {6, 0, 0, StageTransfer::ACTIVATION},
                 {{}, nullptr, 0, owner()});
  inbox_.Fail(absl::CancelledError("over"));
  EXPECT_EQ(inbox_.held(), 0);
}

}  // namespace
}  // namespace tributary
