#include "tests/worker/exchange/stages/stage_link_conformance.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <random>
#include <thread>
#include <utility>

#include "gmock/gmock.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using testing::HasSubstr;

constexpr int kMicroBatches = 16;

std::string TextOf(const ReceivedTransfer& transfer) {
  return std::string(transfer.data, static_cast<size_t>(transfer.bytes));
}

}  // namespace

TransferKey KeyAt(int64_t step, int32_t micro_batch, StageTransfer::Kind kind) {
  return {step, micro_batch, /*boundary=*/0, kind};
}

std::string BytesOf(int64_t seed, int64_t count) {
  std::mt19937_64 random(seed);
  std::string bytes(static_cast<size_t>(count), '\0');
  for (size_t i = 0; i < bytes.size(); i += sizeof(uint64_t)) {
    const uint64_t number = random();
    std::memcpy(&bytes[i], &number, std::min(sizeof(number), bytes.size() - i));
  }
  return bytes;
}

void StageLinkConformance::Connect(std::vector<TransferRoute> routes) {
  if (routes.empty()) {
    for (const StageTransfer::Kind kind :
         {StageTransfer::ACTIVATION, StageTransfer::ACTIVATION_GRADIENT,
          StageTransfer::WEIGHT_GRADIENT}) {
      routes.push_back({/*boundary=*/0, kind, kMaxBytes, kSlots});
    }
  }
  pair_.reset();
  plan_ = std::make_unique<TransferPlan>(
      *TransferPlan::Create(std::move(routes), kMicroBatches));
  pair_ = GetParam().connect(*plan_);
}

std::string StageLinkConformance::ReceiveBytes(const TransferKey& key,
                                               int64_t epoch) {
  const absl::StatusOr<ReceivedTransfer> received = Receive(key, epoch);
  return received.ok() ? TextOf(*received) : received.status().ToString();
}

void StageLinkConformance::FillSlots() {
  for (int i = 0; i < kSlots; ++i) {
    ASSERT_TRUE(Send(KeyAt(0, i), "full").ok());
  }
}

TEST_P(StageLinkConformance, DeliversPartsAndScalars) {
  const std::string a = BytesOf(1, 300);
  const std::string b = BytesOf(2, 128);
  TransferScalars scalars;
  scalars.sample_count = std::numeric_limits<int64_t>::max();
  scalars.loss_sum = -std::numeric_limits<double>::infinity();
  ASSERT_TRUE(
      pair_->link()->Send(1, KeyAt(5, 2), scalars, {a, "", b, "", ""}).ok());
  const absl::StatusOr<ReceivedTransfer> received = Receive(KeyAt(5, 2));
  ASSERT_TRUE(received.ok()) << received.status();
  EXPECT_EQ(received->scalars.sample_count, scalars.sample_count);
  EXPECT_EQ(received->scalars.loss_sum, scalars.loss_sum);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(received->data) % 64, 0u);
  EXPECT_EQ(TextOf(*received), a + b);
}

TEST_P(StageLinkConformance, CopiesATransferToItsTensors) {
  const std::string sent = BytesOf(1, 428);
  ASSERT_TRUE(pair_->link()->Send(1, KeyAt(0, 0), {12, 0.5}, {sent}).ok());
  ASSERT_TRUE(Send(KeyAt(0, 1), sent).ok());
  std::string first(128, '\0');
  std::string second(300, '\0');
  const absl::Span<char> parts[] = {
      absl::MakeSpan(first), {}, absl::MakeSpan(second)};
  const auto scalars =
      pair_->inbox()->ReceiveInto(1, StagePair::kSender, KeyAt(0, 0), parts);
  ASSERT_TRUE(scalars.ok()) << scalars.status();
  EXPECT_EQ(scalars->sample_count, 12);
  EXPECT_EQ(scalars->loss_sum, 0.5);
  EXPECT_EQ(first + second, sent);
  second.resize(299);
  const absl::Span<char> fewer[] = {absl::MakeSpan(first),
                                    absl::MakeSpan(second)};
  EXPECT_THAT(
      pair_->inbox()->ReceiveInto(1, StagePair::kSender, KeyAt(0, 1), fewer),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("428")));
  EXPECT_TRUE(pair_->link()->Flush().ok());
}

TEST_P(StageLinkConformance, ReceiverAsksInAnyOrder) {
  const TransferKey keys[] = {
      KeyAt(3, 0), KeyAt(3, 0, StageTransfer::ACTIVATION_GRADIENT), KeyAt(3, 1),
      KeyAt(4, 0, StageTransfer::WEIGHT_GRADIENT), KeyAt(4, 0)};
  int64_t seed = 0;
  for (const TransferKey& key : keys) {
    ++seed;
    ASSERT_TRUE(Send(key, BytesOf(seed, 50 * seed)).ok());
  }
  for (const int i : {4, 1, 3, 0, 2}) {
    EXPECT_EQ(ReceiveBytes(keys[i]), BytesOf(i + 1, 50 * (i + 1)));
  }
}

TEST_P(StageLinkConformance, ReceiverMayAskFirst) {
  std::string received;
  std::thread receiver([&] { received = ReceiveBytes(KeyAt(0, 0)); });
  EXPECT_TRUE(Send(KeyAt(0, 0), "later").ok());
  receiver.join();
  EXPECT_EQ(received, "later");
}

TEST_P(StageLinkConformance, SenderWaitsWhileAllSlotsAreInUse) {
  FillSlots();
  // Returns OK if it does not wait.
  absl::Status status;
  std::thread sender([&] { status = Send(KeyAt(0, kSlots), "one more"); });
  pair_->link()->EndStep(1, 0);
  sender.join();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kAborted, HasSubstr("step")));
  // The routes of other kinds have slots of their own.
  EXPECT_TRUE(
      Send(KeyAt(1, 0, StageTransfer::ACTIVATION_GRADIENT), "free").ok());
}

TEST_P(StageLinkConformance, TakenTransferOccupiesItsSlotUntilItIsReleased) {
  FillSlots();
  absl::StatusOr<ReceivedTransfer> first = Receive(KeyAt(0, 0));
  ASSERT_TRUE(first.ok());
  std::thread sender(
      [&] { EXPECT_TRUE(Send(KeyAt(1, 0), "in its place").ok()); });
  EXPECT_FALSE(
      pair_->inbox()->ReadyForTest(1, StagePair::kSender, KeyAt(1, 0)));
  EXPECT_EQ(TextOf(*first), "full");
  first->owner.reset();
  sender.join();
  EXPECT_EQ(ReceiveBytes(KeyAt(1, 0)), "in its place");
}

TEST_P(StageLinkConformance, TenThousandTransfersStayInTheBound) {
  constexpr int kCount = 10000;
  std::atomic<int> released{0};
  std::thread sender([&] {
    for (int i = 0; i < kCount; ++i) {
      ASSERT_TRUE(Send(KeyAt(i / kMicroBatches, i % kMicroBatches),
                       BytesOf(i, i % 17 * 8))
                      .ok());
      ASSERT_LE(i + 1 - released, kSlots);
    }
  });
  for (int i = 0; i < kCount; ++i) {
    absl::StatusOr<ReceivedTransfer> received =
        Receive(KeyAt(i / kMicroBatches, i % kMicroBatches));
    ASSERT_TRUE(received.ok()) << received.status();
    ASSERT_EQ(TextOf(*received), BytesOf(i, i % 17 * 8)) << i;
    ASSERT_LE(pair_->inbox()->held(), kSlots);
    // Counted first, because the sender may continue at once.
    ++released;
    received->owner.reset();
    if (i % kMicroBatches == kMicroBatches - 1) {
      pair_->inbox()->EndStep(1, i / kMicroBatches);
    }
  }
  sender.join();
  EXPECT_TRUE(pair_->link()->Flush().ok());
}

TEST_P(StageLinkConformance, DeliversLargeAndEmptyTransfers) {
  constexpr int64_t kLarge = (9 << 20) + 13;
  Connect({{0, StageTransfer::ACTIVATION, kLarge, 2},
           {0, StageTransfer::WEIGHT_GRADIENT, 3 << 20, 2},
           {1, StageTransfer::ACTIVATION, 0, 2}});
  const std::string large = BytesOf(1, kLarge);
  const std::string other = BytesOf(2, 3 << 20);
  // From two threads at once.
  std::thread sender([&] {
    EXPECT_TRUE(Send(KeyAt(0, 0), large).ok());
    EXPECT_TRUE(Send(KeyAt(0, 1), "").ok());
  });
  EXPECT_TRUE(Send(KeyAt(0, 0, StageTransfer::WEIGHT_GRADIENT), other).ok());
  sender.join();
  EXPECT_TRUE(pair_->link()
                  ->Send(1, {0, 0, 1, StageTransfer::ACTIVATION}, {}, {})
                  .ok());
  EXPECT_EQ(ReceiveBytes(KeyAt(0, 0, StageTransfer::WEIGHT_GRADIENT)), other);
  EXPECT_EQ(ReceiveBytes(KeyAt(0, 0)), large);
  EXPECT_EQ(ReceiveBytes(KeyAt(0, 1)), "");
  EXPECT_EQ(ReceiveBytes({0, 0, 1, StageTransfer::ACTIVATION}), "");
}

TEST_P(StageLinkConformance, RefusesWhatIsNotInThePlan) {
  EXPECT_THAT(
      Send(KeyAt(0, 0), BytesOf(1, kMaxBytes + 1)),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("at most 1000")));
  EXPECT_THAT(
      Send({0, 0, 1, StageTransfer::ACTIVATION}, "no such boundary"),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("boundary 1")));
  EXPECT_THAT(Send(KeyAt(0, kMicroBatches), "no such micro-batch"),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Send(KeyAt(-1, 0), "no such step"),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_TRUE(Send(KeyAt(0, 0), BytesOf(1, kMaxBytes)).ok());
  EXPECT_EQ(ReceiveBytes(KeyAt(0, 0)), BytesOf(1, kMaxBytes));
}

TEST_P(StageLinkConformance, DropsTransfersOfOldAssignments) {
  ASSERT_TRUE(Send(KeyAt(0, 0), "old").ok());
  pair_->inbox()->BeginEpoch(2, 0);
  // Those that arrive later are dropped, too. Slots become free.
  for (int i = 1; i <= 2 * kSlots; ++i) {
    ASSERT_TRUE(Send(KeyAt(0, i), "old").ok());
  }
  EXPECT_TRUE(pair_->link()->Flush().ok());
  EXPECT_EQ(pair_->inbox()->held(), 0);
  EXPECT_THAT(Receive(KeyAt(0, 0)), StatusIs(absl::StatusCode::kAborted));

  pair_->link()->BeginEpoch(2, 0);
  EXPECT_THAT(Send(KeyAt(0, 0), "old"), StatusIs(absl::StatusCode::kAborted));
  ASSERT_TRUE(Send(KeyAt(0, 0), "new", /*epoch=*/2).ok());
  EXPECT_EQ(ReceiveBytes(KeyAt(0, 0), /*epoch=*/2), "new");
}

TEST_P(StageLinkConformance, HoldsTransfersOfNewerAssignments) {
  pair_->link()->BeginEpoch(2, 0);
  ASSERT_TRUE(Send(KeyAt(0, 0), "early", /*epoch=*/2).ok());
  std::string received;
  std::thread receiver(
      [&] { received = ReceiveBytes(KeyAt(0, 0), /*epoch=*/2); });
  // Only the second wait can end with the transfer.
  absl::Status old;
  std::thread waiting([&] { old = Receive(KeyAt(0, 0)).status(); });
  pair_->inbox()->BeginEpoch(2, 0);
  waiting.join();
  receiver.join();
  EXPECT_THAT(old, StatusIs(absl::StatusCode::kAborted));
  EXPECT_EQ(received, "early");
}

TEST_P(StageLinkConformance, DropsDuplicates) {
  ASSERT_TRUE(Send(KeyAt(0, 0), "bits").ok());
  ASSERT_TRUE(Send(KeyAt(0, 0), "bits").ok());
  EXPECT_EQ(ReceiveBytes(KeyAt(0, 0)), "bits");
  ASSERT_TRUE(Send(KeyAt(0, 0), "bits").ok());
  // Returns when all three were released.
  EXPECT_TRUE(pair_->link()->Flush().ok());
  EXPECT_EQ(pair_->inbox()->held(), 0);
  EXPECT_THAT(Receive(KeyAt(0, 0)),
              StatusIs(absl::StatusCode::kFailedPrecondition));

  // In a newer epoch, the receiver computes the step again.
  ASSERT_TRUE(Send(KeyAt(0, 0), "bits", /*epoch=*/2).ok());
  pair_->inbox()->BeginEpoch(2, 0);
  EXPECT_EQ(ReceiveBytes(KeyAt(0, 0), /*epoch=*/2), "bits");
}

TEST_P(StageLinkConformance, EndOfAStepDropsItsTransfers) {
  ASSERT_TRUE(Send(KeyAt(0, 0), "step 0").ok());
  ASSERT_TRUE(Send(KeyAt(1, 0), "step 1").ok());
  absl::Status waiting;
  std::thread receiver([&] { waiting = Receive(KeyAt(0, 1)).status(); });
  pair_->inbox()->EndStep(1, 0);
  receiver.join();
  EXPECT_THAT(waiting, StatusIs(absl::StatusCode::kAborted));
  ASSERT_TRUE(Send(KeyAt(0, 2), "late").ok());
  EXPECT_EQ(ReceiveBytes(KeyAt(1, 0)), "step 1");
  EXPECT_TRUE(pair_->link()->Flush().ok());
}

TEST_P(StageLinkConformance, NewAssignmentWakesBothEnds) {
  FillSlots();
  absl::Status sent;
  absl::Status received;
  std::thread sender([&] { sent = Send(KeyAt(0, kSlots), "waits"); });
  std::thread receiver([&] { received = Receive(KeyAt(2, 0)).status(); });
  pair_->link()->BeginEpoch(2, 0);
  pair_->inbox()->BeginEpoch(2, 0);
  sender.join();
  receiver.join();
  EXPECT_THAT(sent, StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(received, StatusIs(absl::StatusCode::kAborted));
}

TEST_P(StageLinkConformance, LostSenderWakesTheReceiver) {
  ASSERT_TRUE(Send(KeyAt(0, 0), "arrived").ok());
  ASSERT_TRUE(Send(KeyAt(0, 1), "later").ok());
  // So the first one has arrived, too.
  EXPECT_EQ(ReceiveBytes(KeyAt(0, 1)), "later");
  absl::Status received;
  std::thread receiver([&] { received = Receive(KeyAt(0, 2)).status(); });
  pair_->LoseSender();
  receiver.join();
  EXPECT_THAT(received,
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("worker 7")));
  EXPECT_EQ(ReceiveBytes(KeyAt(0, 0)), "arrived");
  EXPECT_THAT(Receive(KeyAt(0, 3)), StatusIs(absl::StatusCode::kUnavailable));
}

TEST_P(StageLinkConformance, LostReceiverWakesTheSender) {
  FillSlots();
  absl::Status sent;
  std::thread sender([&] { sent = Send(KeyAt(0, kSlots), "waits"); });
  pair_->LoseReceiver();
  sender.join();
  EXPECT_THAT(sent, StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(pair_->link()->Flush(), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(Send(KeyAt(1, 0), "again"),
              StatusIs(absl::StatusCode::kUnavailable));
}

TEST_P(StageLinkConformance, ShutdownWakesBothEnds) {
  FillSlots();
  absl::Status sent;
  absl::Status flushed;
  absl::Status received;
  std::thread sender([&] { sent = Send(KeyAt(0, kSlots), "waits"); });
  std::thread flusher([&] { flushed = pair_->link()->Flush(); });
  std::thread receiver([&] { received = Receive(KeyAt(2, 0)).status(); });
  pair_->link()->Cancel(absl::CancelledError("shutdown"));
  pair_->inbox()->Fail(absl::CancelledError("shutdown"));
  sender.join();
  flusher.join();
  receiver.join();
  EXPECT_THAT(sent, StatusIs(absl::StatusCode::kCancelled));
  EXPECT_THAT(flushed, StatusIs(absl::StatusCode::kCancelled));
  EXPECT_THAT(received, StatusIs(absl::StatusCode::kCancelled));
  EXPECT_EQ(pair_->inbox()->held(), 0);
}

}  // namespace tributary
