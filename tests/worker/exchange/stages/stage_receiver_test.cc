#include "worker/exchange/stages/stage_receiver.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fake_streams.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using testing::HasSubstr;

constexpr int64_t kSender = 7;
constexpr int64_t kReceiver = 9;
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kExhausted = absl::StatusCode::kResourceExhausted;

class StageReceiverTest : public testing::Test {
 protected:
  StageReceiverTest()
      : plan_(*TransferPlan::Create({{0, StageTransfer::ACTIVATION, 100, 2},
                                     {3, StageTransfer::WEIGHT_GRADIENT, 8, 1}},
                                    /*micro_batches=*/4)),
        admission_({"job", "model", plan_.signature(), kReceiver}) {
    inbox_.BeginEpoch(2, 0);
    admission_.SetPeers(2, {{kSender, "secret"}, {kSender + 1, "other"}});
    Open();
  }
  ~StageReceiverTest() override { session_->OnGone(); }

  void Open() {
    if (session_ != nullptr) session_->OnGone();
    stream_.emplace();
    session_ = std::make_unique<StageReceiver>(
        StageReceiver::Worker{&plan_, &inbox_, &admission_}, &*stream_);
  }

  StageHello GoodHello() const {
    StageHello hello;
    hello.set_job_id("job");
    hello.set_signature("model");
    hello.set_plan_signature(plan_.signature());
    hello.set_sender(kSender);
    hello.set_receiver(kReceiver);
    hello.set_secret("secret");
    hello.set_epoch(2);
    return hello;
  }
  // Opens a stream, and returns the status with which it is closed, or OK.
  absl::Status Greet(const StageHello& hello) {
    Open();
    StageMessage message;
    *message.mutable_hello() = hello;
    session_->OnMessage(message, {});
    return stream_->closed().value_or(absl::OkStatus());
  }
  static StageTransfer GoodTransfer() {
    StageTransfer transfer;
    transfer.set_epoch(2);
    transfer.set_step(5);
    transfer.set_micro_batch(3);
    transfer.set_boundary(0);
    transfer.set_kind(StageTransfer::ACTIVATION);
    transfer.set_slot(1);
    transfer.set_sample_count(12);
    transfer.set_loss_sum(0.5);
    transfer.set_bytes(6);
    return transfer;
  }
  // Sends one part, and returns the status with which the stream is closed.
  absl::Status Send(const StageTransfer& transfer, const std::string& payload) {
    StageMessage message;
    *message.mutable_transfer() = transfer;
    session_->OnMessage(message, PayloadFrom(payload));
    return stream_->closed().value_or(absl::OkStatus());
  }
  // Greets, sends one part, and returns the status of the stream.
  absl::Status SendFirst(const StageTransfer& transfer,
                         const std::string& payload) {
    EXPECT_TRUE(Greet(GoodHello()).ok());
    return Send(transfer, payload);
  }

  const TransferPlan plan_;
  TransferInbox inbox_;
  StageAdmission admission_;
  std::optional<FakeServerStream<StageReply>> stream_;
  std::unique_ptr<StageReceiver> session_;
};

TEST_F(StageReceiverTest, WelcomesDeliversAndReleases) {
  ASSERT_TRUE(Greet(GoodHello()).ok());
  auto welcome = stream_->Read(session_.get());
  ASSERT_TRUE(welcome.has_value());
  EXPECT_TRUE(welcome->message.has_welcome());
  EXPECT_FALSE(welcome->message.welcome().mapped());

  StageTransfer part = GoodTransfer();
  ASSERT_TRUE(Send(part, "fir").ok());
  EXPECT_EQ(inbox_.held(), 0);
  part.set_offset(3);
  ASSERT_TRUE(Send(part, "st!").ok());
  auto received =
      inbox_.Receive(2, kSender, {5, 3, 0, StageTransfer::ACTIVATION});
  ASSERT_TRUE(received.ok()) << received.status();
  EXPECT_EQ(absl::string_view(received->data, received->bytes), "first!");
  EXPECT_EQ(received->scalars.sample_count, 12);
  EXPECT_EQ(received->scalars.loss_sum, 0.5);
  EXPECT_FALSE(stream_->Read(session_.get()).has_value());

  received->owner.reset();
  const auto reply = stream_->Read(session_.get());
  ASSERT_TRUE(reply.has_value());
  ASSERT_EQ(reply->message.release().slot_size(), 1);
  EXPECT_EQ(reply->message.release().slot(0).slot(), 1);
  EXPECT_EQ(reply->message.release().slot(0).kind(), StageTransfer::ACTIVATION);

  session_->OnEnd();
  EXPECT_TRUE(stream_->closed()->ok());
}

TEST_F(StageReceiverTest, TransfersMayBeReleasedAfterTheStreamHasEnded) {
  ASSERT_TRUE(SendFirst(GoodTransfer(), "sixsix").ok());
  auto received =
      inbox_.Receive(2, kSender, {5, 3, 0, StageTransfer::ACTIVATION});
  ASSERT_TRUE(received.ok());
  Open();
  EXPECT_EQ(absl::string_view(received->data, 6), "sixsix");
  received->owner.reset();
}

TEST_F(StageReceiverTest, RefusesOtherJobsModelsAndPlans) {
  constexpr auto kFailed = absl::StatusCode::kFailedPrecondition;
  StageHello hello = GoodHello();
  hello.set_job_id("another");
  EXPECT_THAT(Greet(hello), StatusIs(kFailed, HasSubstr("job")));
  hello = GoodHello();
  hello.set_signature("another");
  EXPECT_THAT(Greet(hello), StatusIs(kFailed, HasSubstr("model")));
  hello = GoodHello();
  hello.set_plan_signature("another");
  EXPECT_THAT(Greet(hello), StatusIs(kFailed, HasSubstr("transfer plan")));
  hello = GoodHello();
  hello.set_receiver(kReceiver - 1);
  EXPECT_THAT(Greet(hello),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("worker 9")));
  // Whose workers have the same incarnations, but other secrets.
  hello = GoodHello();
  hello.set_attempt(1);
  hello.set_secret("of attempt 1");
  EXPECT_THAT(Greet(hello),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("attempt 1")));
}

TEST_F(StageReceiverTest, RefusesStrangersAndOldAssignments) {
  constexpr auto kDenied = absl::StatusCode::kPermissionDenied;
  StageHello hello = GoodHello();
  hello.set_secret("Secret");
  EXPECT_THAT(Greet(hello), StatusIs(kDenied, HasSubstr("secret")));
  hello.clear_secret();
  EXPECT_THAT(Greet(hello), StatusIs(kDenied));
  hello = GoodHello();
  hello.set_sender(kSender + 1);  // Whose secret it does not know.
  EXPECT_THAT(Greet(hello), StatusIs(kDenied));
  hello.set_sender(kSender - 1);
  EXPECT_THAT(Greet(hello), StatusIs(kDenied, HasSubstr("worker 6")));
  // The receiver may not have learned of a new worker.
  hello.set_epoch(3);
  EXPECT_THAT(Greet(hello), StatusIs(absl::StatusCode::kUnavailable));
  hello = GoodHello();
  hello.set_epoch(1);
  EXPECT_THAT(Greet(hello), StatusIs(absl::StatusCode::kAborted));
  // Nobody who was refused has had an influence.
  EXPECT_FALSE(
      inbox_.ReadyForTest(2, kSender, {5, 3, 0, StageTransfer::ACTIVATION}));
}

TEST_F(StageReceiverTest, RequiresOneHello) {
  Open();
  EXPECT_THAT(Send(GoodTransfer(), "sixsix"), StatusIs(kInvalid));
  EXPECT_EQ(inbox_.held(), 0);
  ASSERT_TRUE(Greet(GoodHello()).ok());
  StageMessage again;
  *again.mutable_hello() = GoodHello();
  session_->OnMessage(again, {});
  EXPECT_THAT(*stream_->closed(), StatusIs(kInvalid));
  ASSERT_TRUE(Greet(GoodHello()).ok());
  session_->OnMessage(StageMessage(), {});
  EXPECT_THAT(*stream_->closed(), StatusIs(kInvalid));
}

TEST_F(StageReceiverTest, RefusesTransfersThatAreNotInThePlan) {
  StageTransfer bad = GoodTransfer();
  bad.set_boundary(1);
  EXPECT_THAT(SendFirst(bad, "sixsix"), StatusIs(kInvalid));
  bad = GoodTransfer();
  bad.set_kind(StageTransfer::WEIGHT_GRADIENT);
  EXPECT_THAT(SendFirst(bad, "sixsix"), StatusIs(kInvalid));
  bad = GoodTransfer();
  bad.set_micro_batch(4);
  EXPECT_THAT(SendFirst(bad, "sixsix"), StatusIs(kInvalid));
  bad = GoodTransfer();
  bad.set_step(-1);
  EXPECT_THAT(SendFirst(bad, "sixsix"), StatusIs(kInvalid));
  bad = GoodTransfer();
  bad.set_bytes(101);
  EXPECT_THAT(SendFirst(bad, "sixsix"), StatusIs(kInvalid, HasSubstr("100")));
  bad = GoodTransfer();
  bad.set_sample_count(-1);
  EXPECT_THAT(SendFirst(bad, "sixsix"), StatusIs(kInvalid));
  bad = GoodTransfer();
  bad.set_slot(2);
  EXPECT_THAT(SendFirst(bad, "sixsix"), StatusIs(kExhausted));
  bad.set_slot(-1);
  EXPECT_THAT(SendFirst(bad, "sixsix"), StatusIs(kExhausted));
  EXPECT_EQ(inbox_.held(), 0);
}

TEST_F(StageReceiverTest, RefusesASlotThatIsInUse) {
  ASSERT_TRUE(SendFirst(GoodTransfer(), "sixsix").ok());
  StageTransfer next = GoodTransfer();
  next.set_step(6);
  EXPECT_THAT(Send(next, "sixsix"), StatusIs(kExhausted, HasSubstr("slot 1")));
  // The rest is ignored.
  next.set_slot(0);
  EXPECT_THAT(Send(next, "sixsix"), StatusIs(kExhausted));
  EXPECT_EQ(inbox_.held(), 1);
}

TEST_F(StageReceiverTest, RefusesPartsThatDoNotFollowEachOther) {
  StageTransfer bad = GoodTransfer();
  EXPECT_THAT(SendFirst(bad, "seven77"), StatusIs(kInvalid));
  EXPECT_THAT(SendFirst(bad, ""), StatusIs(kInvalid));
  bad.set_offset(1);
  EXPECT_THAT(SendFirst(bad, "five5"), StatusIs(kInvalid));
  for (const int64_t offset : {-1, 0, 2, 4, 6}) {
    ASSERT_TRUE(SendFirst(GoodTransfer(), "abc").ok());
    bad.set_offset(offset);
    EXPECT_THAT(Send(bad, "def"), StatusIs(kInvalid)) << offset;
  }
  // Another transfer of the same slot.
  ASSERT_TRUE(SendFirst(GoodTransfer(), "abc").ok());
  bad = GoodTransfer();
  bad.set_step(6);
  bad.set_offset(3);
  EXPECT_THAT(Send(bad, "def"), StatusIs(kInvalid, HasSubstr("step 6")));
  EXPECT_EQ(inbox_.held(), 0);
}

TEST_F(StageReceiverTest, PartsOfDifferentTransfersMayAlternate) {
  StageTransfer first = GoodTransfer();
  StageTransfer second = GoodTransfer();
  second.set_step(6);
  second.set_slot(0);
  ASSERT_TRUE(SendFirst(first, "fir").ok());
  ASSERT_TRUE(Send(second, "secon").ok());
  first.set_offset(3);
  ASSERT_TRUE(Send(first, "st!").ok());
  EXPECT_EQ(inbox_.held(), 1);
  second.set_offset(5);
  ASSERT_TRUE(Send(second, "d").ok());
  for (const auto& [step, text] : {std::pair(5, "first!"), {6, "second"}}) {
    const auto received =
        inbox_.Receive(2, kSender, {step, 3, 0, StageTransfer::ACTIVATION});
    ASSERT_TRUE(received.ok()) << received.status();
    EXPECT_EQ(absl::string_view(received->data, 6), text);
  }
}

TEST_F(StageReceiverTest, RefusesTransfersInMemoryThatItHasNotMapped) {
  StageHello hello = GoodHello();
  // An offer of the right size, but of no memory.
  hello.mutable_memory()->set_process(1);
  hello.mutable_memory()->set_bytes(plan_.memory_bytes());
  ASSERT_TRUE(Greet(hello).ok());
  const auto welcome = stream_->Read(session_.get());
  ASSERT_TRUE(welcome.has_value());
  EXPECT_FALSE(welcome->message.welcome().mapped());
  StageMessage message;
  *message.mutable_in_memory() = GoodTransfer();
  session_->OnMessage(message, {});
  EXPECT_THAT(*stream_->closed(), StatusIs(kInvalid));
}

TEST_F(StageReceiverTest, MapsOnlyMemoryOfThePlansSize) {
  for (const int64_t extra : {0, 4096}) {
    const auto memory = SharedMemory::Create(plan_.memory_bytes() + extra);
    ASSERT_TRUE(memory.ok()) << memory.status();
    StageHello hello = GoodHello();
    *hello.mutable_memory() = (*memory)->offer();
    ASSERT_TRUE(Greet(hello).ok());
    const auto welcome = stream_->Read(session_.get());
    ASSERT_TRUE(welcome.has_value());
    EXPECT_EQ(welcome->message.welcome().mapped(), extra == 0);
  }
}

TEST_F(StageReceiverTest, RefusesEverybodyUntilItsWorkerHasAStage) {
  FakeServerStream<StageReply> stream;
  StageReceiver session({}, &stream);
  ASSERT_TRUE(stream.closed().has_value());
  EXPECT_THAT(*stream.closed(), StatusIs(absl::StatusCode::kUnavailable));
  StageMessage message;
  *message.mutable_hello() = GoodHello();
  session.OnMessage(message, {});
  EXPECT_FALSE(stream.Read(&session).has_value());
  session.OnGone();
}

}  // namespace
}  // namespace tributary
