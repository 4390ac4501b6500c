#include "worker/exchange/stages/stage_links.h"

#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "worker/exchange/stages/local_stage_link.h"

namespace tributary {
namespace {

using testing::HasSubstr;

constexpr int64_t kSelf = 7;

TransferKey KeyOf(int64_t step, int micro_batch = 0) {
  return {step, micro_batch, 0, StageTransfer::ACTIVATION};
}

class StageLinksTest : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<StageLink>> Open(
      int64_t to, const std::function<bool()>& stop) {
    opened_.push_back(to);
    if (slow_ != nullptr) {
      slow_->Notify();
      while (!stop()) std::this_thread::yield();
    }
    if (!refusal_.ok()) return refusal_;
    auto link = std::make_unique<LocalStageLink>(&plan_, kSelf, &inboxes_[to]);
    latest_ = link.get();
    return link;
  }
  absl::Status Send(int64_t epoch, int64_t to, const TransferKey& key) {
    return links_.Send(epoch, to, key, {}, {absl::StrCat("to ", to)});
  }
  void Begin(int64_t epoch, const std::set<int64_t>& receivers) {
    for (const int64_t to : receivers) inboxes_[to].BeginEpoch(epoch, 0);
    links_.BeginEpoch(epoch, 0, receivers);
  }

  const TransferPlan plan_ =
      *TransferPlan::Create({{0, StageTransfer::ACTIVATION, 100, 2}}, 4);
  std::map<int64_t, TransferInbox> inboxes_;
  std::vector<int64_t> opened_;
  absl::Status refusal_;
  StageLink* latest_ = nullptr;
  absl::Notification* slow_ = nullptr;
  StageLinks links_{
      [this](int64_t to, int64_t, const std::function<bool()>& stop) {
        return Open(to, stop);
      }};
};

TEST_F(StageLinksTest, OpensOneLinkForEachReceiver) {
  Begin(1, {1, 2});
  EXPECT_TRUE(Send(1, 1, KeyOf(0)).ok());
  EXPECT_TRUE(Send(1, 2, KeyOf(0)).ok());
  EXPECT_TRUE(Send(1, 1, KeyOf(1)).ok());
  EXPECT_EQ(opened_, (std::vector<int64_t>{1, 2}));
  const auto received = inboxes_.at(2).Receive(1, kSelf, KeyOf(0));
  ASSERT_TRUE(received.ok());
  EXPECT_EQ(absl::string_view(received->data, received->bytes), "to 2");
}

TEST_F(StageLinksTest, KeepsGoodLinksOverEpochsAndReplacesOthers) {
  Begin(1, {1, 2});
  ASSERT_TRUE(Send(1, 1, KeyOf(0)).ok());
  ASSERT_TRUE(Send(1, 2, KeyOf(0)).ok());
  latest_->Cancel(absl::UnavailableError("lost worker 2"));
  EXPECT_THAT(Send(1, 2, KeyOf(1)), StatusIs(absl::StatusCode::kUnavailable));
  Begin(2, {1, 2, 3});
  EXPECT_THAT(Send(1, 1, KeyOf(1)), StatusIs(absl::StatusCode::kAborted));
  EXPECT_TRUE(Send(2, 1, KeyOf(1)).ok());
  EXPECT_TRUE(Send(2, 2, KeyOf(1)).ok());
  EXPECT_TRUE(Send(2, 3, KeyOf(1)).ok());
  EXPECT_EQ(opened_, (std::vector<int64_t>{1, 2, 2, 3}));
  // Its connection is closed.
  Begin(3, {2});
  EXPECT_EQ(inboxes_.at(1).held(), 1);
  EXPECT_THAT(inboxes_.at(1).Receive(2, kSelf, KeyOf(3)),
              StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(StageLinksTest, RefusesAnEpochThatHasNotBegun) {
  Begin(1, {1});
  EXPECT_THAT(Send(2, 1, KeyOf(0)),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_TRUE(opened_.empty());
}

TEST_F(StageLinksTest, TriesAgainAfterAFailedConnection) {
  Begin(1, {1});
  refusal_ = absl::UnavailableError("not there");
  EXPECT_THAT(Send(1, 1, KeyOf(0)),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("not there")));
  refusal_ = absl::OkStatus();
  EXPECT_TRUE(Send(1, 1, KeyOf(0)).ok());
}

TEST_F(StageLinksTest, NewEpochStopsAConnectionThatIsBeingOpened) {
  Begin(1, {1});
  absl::Notification opening;
  slow_ = &opening;
  absl::Status first;
  absl::Status second;
  std::thread sender([&] { first = Send(1, 1, KeyOf(0)); });
  opening.WaitForNotification();
  // Waits for the connection of the first.
  std::thread waiting([&] { second = Send(1, 1, KeyOf(0, 1)); });
  links_.BeginEpoch(2, 0, {1});
  sender.join();
  waiting.join();
  EXPECT_THAT(first, StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(second, StatusIs(absl::StatusCode::kAborted));
  slow_ = nullptr;
  EXPECT_TRUE(Send(2, 1, KeyOf(0)).ok());
}

TEST_F(StageLinksTest, LinksThatAreOpenedAfterTheLastStepSendNothing) {
  Begin(1, {1});
  links_.EndStep(1, std::numeric_limits<int64_t>::max());
  EXPECT_THAT(Send(1, 1, KeyOf(4)), StatusIs(absl::StatusCode::kAborted));
}

TEST_F(StageLinksTest, EndOfAStepAndFailureWakeSenders) {
  Begin(1, {1});
  ASSERT_TRUE(Send(1, 1, KeyOf(4, 0)).ok());
  ASSERT_TRUE(Send(1, 1, KeyOf(4, 1)).ok());
  absl::Status status;
  std::thread sender([&] { status = Send(1, 1, KeyOf(4, 2)); });
  links_.EndStep(1, 4);
  sender.join();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kAborted));
  // Links that are opened later know it, too.
  Begin(2, {1, 2});
  links_.EndStep(2, 4);
  EXPECT_THAT(Send(2, 2, KeyOf(4)), StatusIs(absl::StatusCode::kAborted));

  ASSERT_TRUE(Send(2, 1, KeyOf(5)).ok());
  std::thread flusher([&] { status = links_.Flush(); });
  links_.Fail(absl::CancelledError("shutdown"));
  flusher.join();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kCancelled));
  EXPECT_THAT(Send(2, 1, KeyOf(6)), StatusIs(absl::StatusCode::kCancelled));
}

TEST_F(StageLinksTest, FlushWaitsUntilEverythingIsReleased) {
  Begin(1, {1, 2});
  ASSERT_TRUE(Send(1, 1, KeyOf(0)).ok());
  ASSERT_TRUE(Send(1, 2, KeyOf(0)).ok());
  std::thread receiver([&] {
    for (const int64_t to : {2, 1}) {
      EXPECT_TRUE(inboxes_.at(to).Receive(1, kSelf, KeyOf(0)).ok());
    }
  });
  EXPECT_TRUE(links_.Flush().ok());
  EXPECT_EQ(inboxes_.at(1).held() + inboxes_.at(2).held(), 0);
  receiver.join();
}

}  // namespace
}  // namespace tributary
