// Workers that cannot take part: the job continues without them if it can.
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/coordinator.h"
#include "tests/server/coordinator/coordinator_fixture.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CoordinatorRefusalTest : public CoordinatorTest {
 protected:
  absl::Status SayReadyWith(FakeWorker* worker, uint64_t fingerprint) {
    ready_.mutable_data()->set_fingerprint(fingerprint);
    return SayReady(worker);
  }

  void SayItCannotRead(FakeWorker* worker) {
    WorkerReport report;
    report.mutable_failure()->set_message("train.csv: cannot open");
    report.mutable_failure()->set_exit_code(2);
    ASSERT_TRUE(Say(worker, report).ok());
  }

  void JoinAll() {
    for (FakeWorker* worker : {&first_, &second_, &third_}) {
      ASSERT_TRUE(Join(worker).ok());
    }
  }

  Coordinator::Ending Ending() {
    return coordinator_->AwaitEnding(absl::ZeroDuration());
  }

  FakeWorker first_, second_, third_;
};

TEST_F(CoordinatorRefusalTest, GoesOnWithoutAWorkerThatCannotReadItsData) {
  Make(/*servers=*/1, /*expected_workers=*/3);
  ASSERT_TRUE(Join(&first_).ok());
  SayItCannotRead(&first_);  // It is the only one so far.
  EXPECT_EQ(Ending(), Coordinator::Ending::kNone);
  EXPECT_EQ(first_.closed.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(coordinator_->TakeNotices(),
              ElementsAre(HasSubstr("worker 0 (host , process 0) cannot take "
                                    "part: train.csv: cannot open")));
  EXPECT_THAT(coordinator_->TakeNotices(), IsEmpty());
  EnterAll({&second_, &third_});
  EXPECT_EQ(second_.last_assignment().leaf_end(), 2);
  EXPECT_EQ(third_.last_assignment().leaf_end(), 4);
}

TEST_F(CoordinatorRefusalTest, FailsWhereNoWorkerCanReadItsData) {
  Make(/*servers=*/1, /*expected_workers=*/3);
  JoinAll();
  for (FakeWorker* worker : {&first_, &second_}) {
    SayItCannotRead(worker);
    EXPECT_EQ(Ending(), Coordinator::Ending::kNone);
  }
  SayItCannotRead(&third_);
  EXPECT_EQ(Ending(), Coordinator::Ending::kFailed);
  EXPECT_TRUE(absl::IsInvalidArgument(coordinator_->status()));
  EXPECT_THAT(std::string(coordinator_->status().message()),
              HasSubstr("failed: train.csv: cannot open"));
  EXPECT_EQ(coordinator_->GetStatus().failure_exit_code(), 2);
}

TEST_F(CoordinatorRefusalTest, SaysWhoWasRefusedWhereNobodyElseComes) {
  Make(/*servers=*/1, /*expected_workers=*/2);
  ASSERT_TRUE(Join(&first_).ok());
  SayItCannotRead(&first_);
  Pass(options_.no_worker_timeout + absl::Seconds(1));
  EXPECT_EQ(Ending(), Coordinator::Ending::kFailed);
  EXPECT_THAT(std::string(coordinator_->status().message()),
              HasSubstr("worker 0 (host , process 0) cannot take part: "
                        "train.csv: cannot open"));
}

// Its data won, and those of all others were refused.
TEST_F(CoordinatorRefusalTest, TheOddOneOutIsRefusedThoughItCameFirst) {
  Make(/*servers=*/1, /*expected_workers=*/3);
  JoinAll();
  ASSERT_TRUE(SayReadyWith(&first_, 5).ok());
  ASSERT_TRUE(SayReadyWith(&second_, 7).ok());
  EXPECT_TRUE(servers_[0].orders.empty());
  ASSERT_TRUE(SayReadyWith(&third_, 7).ok());
  EXPECT_EQ(first_.closed.code(), absl::StatusCode::kInvalidArgument);
  const std::string message(first_.closed.message());
  EXPECT_THAT(message, HasSubstr("this worker's data (64 training samples, 0 "
                                 "evaluation pieces, fingerprint 5) differ"));
  EXPECT_THAT(message,
              HasSubstr("fingerprint 7), which are those of worker 1 (host , "
                        "process 0) and 1 more: copy the same files"));
  EXPECT_TRUE(servers_[0].orders[0].has_configure());
  SayConfigured();
  SaySynced(&second_);
  SaySynced(&third_);
  EXPECT_EQ(third_.last_assignment().leaf_end(), 4);
}

TEST_F(CoordinatorRefusalTest, TheOddOneOutIsRefusedWhereItComesLast) {
  Make(/*servers=*/1, /*expected_workers=*/3);
  JoinAll();
  ASSERT_TRUE(SayReadyWith(&first_, 7).ok());
  ASSERT_TRUE(SayReadyWith(&second_, 7).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(SayReadyWith(&third_, 5)));
  SayConfigured();
  SaySynced(&first_);
  EXPECT_FALSE(first_.Got(CoordinatorOrder::kDeal));
  SaySynced(&second_);  // The third one is not waited for.
  EXPECT_EQ(second_.last_assignment().leaf_end(), 4);
}

TEST_F(CoordinatorRefusalTest, ATieFailsTheJobAndNamesBothSides) {
  Make(/*servers=*/1, /*expected_workers=*/2);
  ASSERT_TRUE(Join(&first_).ok());
  ASSERT_TRUE(Join(&second_).ok());
  ASSERT_TRUE(SayReadyWith(&first_, 5).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(SayReadyWith(&second_, 7)));
  EXPECT_EQ(Ending(), Coordinator::Ending::kFailed);
  EXPECT_EQ(coordinator_->GetStatus().failure_exit_code(), 2);
  const std::string message(coordinator_->status().message());
  EXPECT_THAT(message, HasSubstr("worker 0 (host , process 0) has 64 training "
                                 "samples, 0 evaluation pieces, fingerprint "
                                 "5"));
  EXPECT_THAT(message, HasSubstr("worker 1 (host , process 0) has"));
  EXPECT_THAT(message, HasSubstr("fingerprint 7"));
}

// A job that waits for workers was failed by one that could not even start.
TEST_F(CoordinatorRefusalTest, AWorkerThatCannotStartDoesNotEndTheTraining) {
  Make(/*servers=*/1, /*expected_workers=*/1);
  Enter(&first_);
  coordinator_->WorkerGone(first_.incarnation);
  ASSERT_TRUE(Join(&second_).ok());
  SayItCannotRead(&second_);
  EXPECT_EQ(Ending(), Coordinator::Ending::kNone);
  Enter(&third_);
  EXPECT_EQ(third_.last_assignment().leaf_end(), 4);
}

// Of the job's earlier attempts: the odd one out must not be the first to be
// back after a server was lost.
TEST_F(CoordinatorRefusalTest, LaterAttemptsKeepTheData) {
  Make(/*servers=*/1, /*expected_workers=*/1);
  EXPECT_FALSE(coordinator_->data().has_value());
  Enter(&first_);
  ASSERT_TRUE(coordinator_->data().has_value());
  options_.data = coordinator_->data();
  options_.data->set_fingerprint(7);
  servers_[0].orders.clear();
  Make(/*servers=*/1, /*expected_workers=*/3);
  JoinAll();
  const absl::Status refused = SayReadyWith(&first_, 5);
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("those of the workers that it was begun with"));
  EXPECT_TRUE(servers_[0].orders.empty());
  ASSERT_TRUE(SayReadyWith(&second_, 7).ok());
  ASSERT_FALSE(servers_[0].orders.empty());
  EXPECT_TRUE(servers_[0].orders.back().has_configure());
}

}  // namespace
}  // namespace tributary
