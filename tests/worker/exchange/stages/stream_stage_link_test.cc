#include "worker/exchange/stages/stream_stage_link.h"

#include <memory>
#include <string>
#include <utility>

#include "common/base/monotonic_clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fake_streams.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using testing::HasSubstr;
using FakeStream = FakeClientStream<StageReply, StageMessage>;

constexpr TransferKey kSent = {5, 1, 0, StageTransfer::ACTIVATION};
constexpr int64_t kBytes = 3 * StreamStageLink::kPartBytes;

class StreamStageLinkTest : public testing::Test {
 protected:
  StreamStageLinkTest() { Open(); }

  void Open() {
    link_.reset();
    auto stream = std::make_unique<FakeStream>();
    stream_ = stream.get();
    StageHello hello;
    hello.set_sender(7);
    link_ = std::make_unique<StreamStageLink>(
        &plan_, "worker 9", std::move(stream), hello, /*memory=*/nullptr);
  }

  void Welcome(bool mapped = false) {
    StageReply reply;
    reply.mutable_welcome()->set_mapped(mapped);
    stream_->Receive(reply);
  }
  void Release(int boundary, int slot) {
    StageReply reply;
    StageRelease::Slot* const free = reply.mutable_release()->add_slot();
    free->set_boundary(boundary);
    free->set_kind(StageTransfer::ACTIVATION);
    free->set_slot(slot);
    stream_->Receive(reply);
  }
  absl::Status Send(const std::string& bytes) {
    return link_->Send(1, kSent, {12, 0.5}, {bytes});
  }

  const TransferPlan plan_ =
      *TransferPlan::Create({{0, StageTransfer::ACTIVATION, kBytes, 2}}, 4);
  FakeStream* stream_ = nullptr;
  std::unique_ptr<StreamStageLink> link_;
};

TEST_F(StreamStageLinkTest, SendsHelloAndThenParts) {
  EXPECT_EQ(stream_->Read()->message.hello().sender(), 7);
  Welcome();
  ASSERT_TRUE(link_->AwaitWelcome(absl::InfiniteFuture()).ok());
  EXPECT_FALSE(link_->in_memory());
  const std::string bytes(2 * StreamStageLink::kPartBytes + 1, 'x');
  ASSERT_TRUE(Send(bytes).ok());
  int64_t offset = 0;
  for (int i = 0; i < 3; ++i) {
    const auto part = stream_->Read();
    ASSERT_TRUE(part.has_value());
    const StageTransfer& transfer = part->message.transfer();
    EXPECT_EQ(transfer.offset(), offset);
    EXPECT_EQ(transfer.bytes(), static_cast<int64_t>(bytes.size()));
    EXPECT_EQ(transfer.epoch(), 1);
    EXPECT_EQ(transfer.step(), 5);
    EXPECT_EQ(transfer.micro_batch(), 1);
    EXPECT_EQ(transfer.slot(), 0);
    EXPECT_EQ(transfer.sample_count(), 12);
    EXPECT_EQ(transfer.loss_sum(), 0.5);
    offset += static_cast<int64_t>(part->payload.size());
  }
  EXPECT_EQ(offset, static_cast<int64_t>(bytes.size()));
  EXPECT_FALSE(stream_->Read().has_value());
  // The second slot, and then the first one again.
  ASSERT_TRUE(Send("").ok());
  EXPECT_EQ(stream_->Read()->message.transfer().slot(), 1);
  Release(0, 0);
  ASSERT_TRUE(Send("next").ok());
  EXPECT_EQ(stream_->Read()->message.transfer().slot(), 0);
}

TEST_F(StreamStageLinkTest, FailsIfTheReceiverReleasesAFreeSlot) {
  for (const auto& [boundary, slot] :
       {std::pair(0, 0), std::pair(0, 2), std::pair(0, -1), std::pair(1, 0)}) {
    Open();
    Release(boundary, slot);
    EXPECT_THAT(link_->status(), StatusIs(absl::StatusCode::kInvalidArgument,
                                          HasSubstr("worker 9")));
    EXPECT_TRUE(stream_->cancelled());
  }
}

TEST_F(StreamStageLinkTest, ReturnsTheReasonOfTheReceiver) {
  stream_->End(absl::PermissionDeniedError("wrong secret"));
  EXPECT_THAT(
      link_->AwaitWelcome(absl::InfiniteFuture()),
      StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("wrong secret")));
  EXPECT_THAT(Send("more"), StatusIs(absl::StatusCode::kPermissionDenied));
}

TEST_F(StreamStageLinkTest, BrokenConnectionIsALostWorker) {
  Welcome();
  stream_->End(absl::InternalError("connection reset"));
  EXPECT_THAT(Send("more"), StatusIs(absl::StatusCode::kUnavailable,
                                     HasSubstr("lost worker 9")));
}

TEST_F(StreamStageLinkTest, WaitsForTheWelcomeUntilTheDeadline) {
  EXPECT_THAT(
      link_->AwaitWelcome(MonotonicNow()),
      StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("worker 9")));
}

TEST_F(StreamStageLinkTest, IgnoresAMappingThatItHasNotOffered) {
  Welcome(/*mapped=*/true);
  ASSERT_TRUE(Send("bytes").ok());
  stream_->Read();
  EXPECT_EQ(stream_->Read()->payload, "bytes");
}

}  // namespace
}  // namespace tributary
