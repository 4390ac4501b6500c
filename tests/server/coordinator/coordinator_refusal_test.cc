// Workers that cannot take part: the job continues without them if it can.
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/coordinator.h"
#include "server/membership/member_secrets.h"
#include "tests/server/coordinator/coordinator_fixture.h"
#include "tests/support/status_matchers.h"

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

  // Returns the incarnation that the server's last order revokes, or 0.
  int64_t Revoked(int shard = 0) const {
    int64_t revoked = 0;
    for (const ServerOrder& order : servers_[shard].orders) {
      if (order.has_revoke()) revoked = order.revoke().incarnation();
    }
    return revoked;
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

TEST_F(CoordinatorRefusalTest, AwaitsAnotherWorkerAfterADeviceHasFailed) {
  Make(/*servers=*/1, /*expected_workers=*/1);
  Enter(&first_);
  WorkerReport report;
  report.mutable_failure()->set_message("ReluForward on cuda:0");
  report.mutable_failure()->set_exit_code(75);
  ASSERT_TRUE(Say(&first_, report).ok());
  EXPECT_EQ(Ending(), Coordinator::Ending::kNone);
  EXPECT_EQ(first_.closed.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(first_.closed.message()),
              HasSubstr("failed: ReluForward on cuda:0"));
  Enter(&second_);
  EXPECT_TRUE(second_.Got(CoordinatorOrder::kDeal));
}

TEST_F(CoordinatorRefusalTest, AFailureAfterTrainingDoesNotFailTheJob) {
  Make(/*servers=*/1, /*expected_workers=*/1, /*steps=*/1);
  Enter(&first_);
  ASSERT_TRUE(SaySums(/*shard=*/0, /*step=*/0, {1, 2, 3}).ok());
  ASSERT_TRUE(first_.Got(CoordinatorOrder::kFinished));
  WorkerReport report;
  report.mutable_failure()->set_message("the progress bar is broken");
  report.mutable_failure()->set_exit_code(1);
  ASSERT_TRUE(Say(&first_, report).ok());
  EXPECT_EQ(Ending(), Coordinator::Ending::kTrained);
  EXPECT_TRUE(coordinator_->status().ok());
}

TEST_F(CoordinatorRefusalTest, NamesTheDeviceIfNoOtherWorkerComes) {
  Make(/*servers=*/1, /*expected_workers=*/1);
  Enter(&first_);
  WorkerReport report;
  report.mutable_failure()->set_message("ReluForward on cuda:0");
  report.mutable_failure()->set_exit_code(75);
  ASSERT_TRUE(Say(&first_, report).ok());
  Pass(options_.no_worker_timeout + absl::Seconds(1));
  EXPECT_EQ(Ending(), Coordinator::Ending::kFailed);
  EXPECT_THAT(std::string(coordinator_->status().message()),
              HasSubstr("failed: ReluForward on cuda:0"));
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

TEST_F(CoordinatorRefusalTest, RefusesFactsThatContradictTheJob) {
  struct Case {
    void (*change)(DataFacts*);
    const char* expected;
  };
  const Case cases[] = {
      {[](DataFacts* facts) { facts->set_train_samples(0); },
       "DataFacts.train_samples is 0, expected at least 1"},
      {[](DataFacts* facts) { facts->set_steps_per_epoch(7); },
       "DataFacts.steps_per_epoch is 7, expected 8 for this job"},
      {[](DataFacts* facts) { facts->set_steps(13); },
       "DataFacts.steps is 13, expected 12 for this job"},
      {[](DataFacts* facts) { facts->set_evaluation_pieces(-1); },
       "DataFacts.evaluation_pieces is -1, expected 0"}};
  options_.job.set_epochs(1.5);
  for (const Case& wrong : cases) {
    Make(/*servers=*/1, /*expected_workers=*/1, /*steps=*/12);
    FakeWorker worker;
    ASSERT_TRUE(Join(&worker).ok());
    wrong.change(ready_.mutable_data());
    const absl::Status status = SayReady(&worker);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(wrong.expected));
    EXPECT_THAT(coordinator_->TakeNotices(),
                ElementsAre(HasSubstr(wrong.expected)));
  }
  Make(/*servers=*/1, /*expected_workers=*/1, /*steps=*/12);
  Enter(&first_);
  EXPECT_TRUE(first_.Got(CoordinatorOrder::kDeal));
}

// Also a worker that comes first, which otherwise decides what the data are.
TEST_F(CoordinatorRefusalTest, RefusesOtherFactsThanTheJobStatesOfItsData) {
  options_.job.mutable_data()->mutable_external()->set_train_samples(64);
  Make(/*servers=*/1, /*expected_workers=*/1);
  ready_.mutable_data()->set_unit("samples");
  ready_.mutable_data()->set_fingerprint(9);
  ASSERT_TRUE(Join(&first_).ok());
  const absl::Status status = SayReady(&first_);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("DataFacts.fingerprint is 9, expected 0 by "
                        "data.external.fingerprint of the job"));
  ready_.mutable_data()->clear_fingerprint();
  Enter(&second_);
  EXPECT_TRUE(second_.Got(CoordinatorOrder::kDeal));
  ready_.mutable_data()->set_train_samples(63);
  ASSERT_TRUE(Join(&third_).ok());
  EXPECT_THAT(std::string(SayReady(&third_).message()),
              HasSubstr("DataFacts.train_samples is 63, expected 64 by "
                        "data.external.train_samples of the job"));
}

TEST_F(CoordinatorRefusalTest, NamesTheFactThatDiffers) {
  Make(/*servers=*/1, /*expected_workers=*/1);
  Enter(&first_);
  ASSERT_TRUE(Join(&second_).ok());
  ready_.mutable_data()->set_sampler("mine");
  EXPECT_THAT(std::string(SayReady(&second_).message()),
              HasSubstr("; sampler is \"mine\", expected \"\": copy"));
}

TEST_F(CoordinatorRefusalTest, NamesTheFirstParameterThatDiffers) {
  Make(/*servers=*/1, /*expected_workers=*/1);
  Enter(&first_);
  const ParameterTable table = ready_.table();
  const auto refusal = [&] {
    FakeWorker worker;
    EXPECT_TRUE(Join(&worker).ok());
    const absl::Status status = SayReady(&worker);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    return std::string(status.message());
  };
  ready_.mutable_table()->mutable_parameter(1)->add_shape(2);
  EXPECT_THAT(refusal(), HasSubstr("parameter 1 is b [16, 2] DECAY, expected "
                                   "b [16] DECAY"));
  *ready_.mutable_table() = table;
  ready_.mutable_table()->mutable_parameter()->RemoveLast();
  EXPECT_THAT(refusal(),
              HasSubstr("parameter 2 is absent, expected c [16] DECAY"));
  *ready_.mutable_table() = table;
  ready_.mutable_table()->set_chunk_elements(32);
  EXPECT_THAT(refusal(), HasSubstr("chunk_elements is 32, expected 16"));
}

TEST_F(CoordinatorRefusalTest, ARefusedWorkerLeavesANotice) {
  Make(/*servers=*/1, /*expected_workers=*/1);
  class Join join;
  join.set_protocol_version(kProtocolVersion + 1);
  join.set_host("h");
  join.set_pid(5);
  EXPECT_THAT(coordinator_->AddWorker(join, &first_),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(coordinator_->TakeNotices(),
              ElementsAre(HasSubstr("a worker (host h, process 5) is refused: "
                                    "this process speaks protocol version")));
  ASSERT_TRUE(Join(&second_).ok());
  WorkerReport synced;
  synced.mutable_synced();
  EXPECT_THAT(
      Say(&second_, synced),
      StatusIs(absl::StatusCode::kFailedPrecondition, "Synced before Open"));
  EXPECT_THAT(coordinator_->TakeNotices(),
              ElementsAre(HasSubstr("worker 0 (host , process 0) is refused: "
                                    "Synced before Open")));
}

TEST_F(CoordinatorRefusalTest, RefusesAWorkerWhoseLossIsNotFinite) {
  Make(/*servers=*/1, /*expected_workers=*/2);
  EnterAll({&first_, &second_});
  ServerReport report;
  report.mutable_sums()->set_step(0);
  for (int chunk = 0; chunk < 3; ++chunk) {
    report.mutable_sums()->add_sum_of_squares(1);
  }
  report.mutable_sums()->set_weight(8);
  report.mutable_sums()->set_loss_sum(INFINITY);
  report.mutable_sums()->set_nonfinite_loss_contributor(second_.incarnation);
  ASSERT_TRUE(coordinator_->OnServerReport(/*shard=*/0, report).ok());
  EXPECT_EQ(second_.closed.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(second_.closed.message()),
              HasSubstr("step 1: its loss_sum is nan or infinite"));
  EXPECT_THAT(coordinator_->TakeNotices(),
              ElementsAre(HasSubstr("worker 1 (host , process 0) is refused: "
                                    "step 1: its loss_sum is")));
  EXPECT_EQ(first_.last_assignment().leaf_end(), 4);
  EXPECT_EQ(Revoked(), second_.incarnation);
}

TEST_F(CoordinatorRefusalTest, RemovesAWorkerThatAServerReports) {
  Make(/*servers=*/2, /*expected_workers=*/2);
  EnterAll({&first_, &second_});
  ServerReport report;
  report.mutable_violation()->set_incarnation(second_.incarnation);
  report.mutable_violation()->set_message("node 9 is not its own");
  ASSERT_TRUE(coordinator_->OnServerReport(/*shard=*/1, report).ok());
  EXPECT_EQ(second_.closed.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(coordinator_->TakeNotices(),
              ElementsAre(HasSubstr("worker 1 (host , process 0) is refused: "
                                    "node 9 is not its own")));
  EXPECT_EQ(first_.last_assignment().leaf_end(), 4);
  EXPECT_EQ(Revoked(/*shard=*/0), second_.incarnation);
  EXPECT_EQ(Revoked(/*shard=*/1), second_.incarnation);
}

TEST_F(CoordinatorRefusalTest, NamesTheOnlyWorkerIfItWasRefused) {
  Make(/*servers=*/1, /*expected_workers=*/1);
  Enter(&first_);
  ServerReport report;
  report.mutable_violation()->set_incarnation(first_.incarnation);
  report.mutable_violation()->set_message("node 9 is not its own");
  ASSERT_TRUE(coordinator_->OnServerReport(/*shard=*/0, report).ok());
  Pass(options_.no_worker_timeout + absl::Seconds(1));
  EXPECT_EQ(Ending(), Coordinator::Ending::kFailed);
  EXPECT_THAT(std::string(coordinator_->status().message()),
              HasSubstr("worker 0 (host , process 0) is refused: node 9"));
}

TEST_F(CoordinatorRefusalTest, RefusesTimesThatAreNoNumbers) {
  Make(/*servers=*/1, /*expected_workers=*/2);
  EnterAll({&first_, &second_});
  WorkerReport beat;
  beat.mutable_heartbeat()->mutable_statistics()->set_leaf_seconds(INFINITY);
  EXPECT_THAT(Say(&second_, beat),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("ProcessStatistics.leaf_seconds is inf")));
  EXPECT_EQ(first_.last_assignment().leaf_end(), 4);
}

// Each worker has a secret of its own, and so has each of its assignments.
TEST_F(CoordinatorRefusalTest, GivesEachWorkerItsSecrets) {
  options_.secret_key = "key";
  Make(/*servers=*/1, /*expected_workers=*/2);
  EnterAll({&first_, &second_});
  const MemberSecrets secrets("key");
  for (const FakeWorker* worker : {&first_, &second_}) {
    ASSERT_TRUE(worker->orders[0].has_admission());
    Hello hello;
    hello.set_incarnation(worker->incarnation);
    hello.set_secret(worker->orders[0].admission().secret());
    EXPECT_TRUE(secrets.Proves(hello));
    const Deal& deal = worker->last_assignment();
    EXPECT_EQ(deal.secret(), secrets.OfAssignment(worker->incarnation, deal));
  }
  EXPECT_EQ(servers_[0].orders[0].configure().secret_key(), "key");
}

TEST_F(CoordinatorRefusalTest, RefusesEvaluationsThatCannotBe) {
  options_.job.mutable_evaluation()->set_batch(10);
  const auto report = [&](int64_t piece, int64_t sample_count,
                          int64_t correct) {
    Make(/*servers=*/1, /*expected_workers=*/1, /*steps=*/1, /*pieces=*/2);
    first_ = FakeWorker();
    Enter(&first_);
    EXPECT_TRUE(SaySums(/*shard=*/0, /*step=*/0, {1, 1, 1}).ok());
    WorkerReport evaluation;
    evaluation.mutable_evaluation()->set_version(1);
    evaluation.mutable_evaluation()->set_piece(piece);
    evaluation.mutable_evaluation()->set_weight(sample_count);
    evaluation.mutable_evaluation()->set_correct(correct);
    const absl::Status status = Say(&first_, evaluation);
    EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(report(0, 9, 0), HasSubstr("weight is 9, expected 10"));
  EXPECT_THAT(report(1, 0, 0), HasSubstr("weight is 0, expected from 1 to 10"));
  EXPECT_THAT(report(1, 11, 0),
              HasSubstr("weight is 11, expected from 1 to 10"));
  EXPECT_THAT(report(1, 3, 4), HasSubstr("correct is 4, expected from 0 to 3"));
  EXPECT_THAT(report(2, 10, 0), HasSubstr("piece 2 was not assigned"));
  EXPECT_EQ(report(0, 10, 10), "");
  EXPECT_EQ(report(1, 3, 0), "");
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
  coordinator_->OnWorkerDisconnected(first_.incarnation);
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
  EXPECT_FALSE(coordinator_->Facts().data.has_value());
  Enter(&first_);
  ASSERT_TRUE(coordinator_->Facts().data.has_value());
  options_.data = coordinator_->Facts().data;
  options_.data->set_fingerprint(7);
  servers_[0].orders.clear();
  Make(/*servers=*/1, /*expected_workers=*/3);
  JoinAll();
  const absl::Status refused = SayReadyWith(&first_, 5);
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  EXPECT_TRUE(servers_[0].orders.empty());
  ASSERT_TRUE(SayReadyWith(&second_, 7).ok());
  ASSERT_FALSE(servers_[0].orders.empty());
  EXPECT_TRUE(servers_[0].orders.back().has_configure());
}

}  // namespace
}  // namespace tributary
