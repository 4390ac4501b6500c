#include "server/coordinator/coordinator.h"

#include <string>

#include "absl/status/status.h"
#include "common/base/json.h"
#include "common/transport/channel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/server/coordinator/coordinator_fixture.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

TEST_F(CoordinatorTest, TakesAWorkerFromJoiningToItsMicroBatches) {
  Make(/*servers=*/2, /*expected_workers=*/1);
  FakeWorker worker;
  ASSERT_TRUE(Join(&worker).ok());
  ASSERT_EQ(worker.orders.size(), 1);
  EXPECT_EQ(worker.orders[0].admission().server_address(1), "10.0.0.2:1");
  ASSERT_TRUE(SayReady(&worker).ok());
  EXPECT_EQ(worker.orders.size(), 1);  // The servers do not know the model yet.
  EXPECT_TRUE(servers_[0].orders[0].has_configure());
  EXPECT_TRUE(servers_[1].orders[0].has_configure());
  SayConfigured();
  ASSERT_EQ(worker.orders.size(), 2);
  EXPECT_TRUE(worker.orders[1].open().initialize());
  SaySynced(&worker);
  EXPECT_EQ(worker.last_assignment().leaf_begin(), 0);
  EXPECT_EQ(worker.last_assignment().leaf_end(), 4);
}

TEST_F(CoordinatorTest, WaitsForTheExpectedWorkersButNotForever) {
  Make(/*servers=*/1, /*expected_workers=*/2);
  FakeWorker worker;
  ASSERT_TRUE(Join(&worker).ok());
  ASSERT_TRUE(SayReady(&worker).ok());
  Pass(options_.start_timeout - absl::Seconds(1), {&worker});
  EXPECT_TRUE(servers_[0].orders.empty());
  Pass(absl::Seconds(1), {&worker});
  EXPECT_TRUE(servers_[0].orders[0].has_configure());
  SayConfigured();
  SaySynced(&worker);  // It is not awaited a second time.
  EXPECT_TRUE(worker.Got(CoordinatorOrder::kDeal));
}

TEST_F(CoordinatorTest, ChoosesAnotherInitializerWhenTheFirstIsGone) {
  Make(/*servers=*/1, /*expected_workers=*/2);
  FakeWorker first, second;
  for (FakeWorker* worker : {&first, &second}) {
    ASSERT_TRUE(Join(worker).ok());
    ASSERT_TRUE(SayReady(worker).ok());
  }
  SayConfigured();
  EXPECT_TRUE(first.orders.back().open().initialize());
  EXPECT_FALSE(second.orders.back().open().initialize());
  coordinator_->OnWorkerDisconnected(first.incarnation);
  EXPECT_TRUE(second.orders.back().open().initialize());
}

TEST_F(CoordinatorTest, ReassignsWhenAWorkerJoinsLeavesOrFallsSilent) {
  Make(/*servers=*/1, /*expected_workers=*/1);
  FakeWorker first, second;
  Enter(&first);
  Enter(&second);
  EXPECT_EQ(first.last_assignment().leaf_end(), 2);
  EXPECT_EQ(second.last_assignment().leaf_begin(), 2);
  const int64_t generation = first.last_assignment().generation();
  EXPECT_EQ(second.last_assignment().generation(), generation);

  coordinator_->OnWorkerDisconnected(second.incarnation);
  EXPECT_EQ(first.last_assignment().leaf_end(), 4);
  EXPECT_GT(first.last_assignment().generation(), generation);

  FakeWorker third;
  Enter(&third);
  Pass(options_.lease + absl::Seconds(1), {&first});
  WorkerReport beat;
  beat.mutable_heartbeat();
  EXPECT_EQ(third.closed.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(third.closed.message()), HasSubstr("lease"));
  EXPECT_EQ(first.last_assignment().leaf_end(), 4);
  // A word from beyond the lease is refused.
  EXPECT_EQ(Say(&third, beat).code(), absl::StatusCode::kAborted);
}

TEST_F(CoordinatorTest, ReassignsOnceWhenManyWorkersAreLostTogether) {
  constexpr int kWorkers = 100;
  Make(/*servers=*/1, /*expected_workers=*/kWorkers);
  std::vector<FakeWorker> workers(kWorkers);
  std::vector<FakeWorker*> pointers;
  for (FakeWorker& worker : workers) pointers.push_back(&worker);
  EnterAll(pointers);
  const FakeWorker& last = workers.back();
  const int64_t generation = last.last_assignment().generation();
  now_ += absl::Seconds(1);
  // The workers with micro-batches are lost. The first loss has an effect at
  // once.
  coordinator_->OnWorkerDisconnected(workers[0].incarnation);
  EXPECT_EQ(last.last_assignment().generation(), generation + 1);
  for (int i = 1; i < 10; ++i) {
    coordinator_->OnWorkerDisconnected(workers[i].incarnation);
  }
  EXPECT_EQ(last.last_assignment().generation(), generation + 1);
  coordinator_->Tick();
  EXPECT_EQ(last.last_assignment().generation(), generation + 2);
  int64_t micro_batches = 0;
  for (int i = 10; i < kWorkers; ++i) {
    const Deal& deal = workers[i].last_assignment();
    EXPECT_EQ(deal.generation(), generation + 2);
    micro_batches += deal.leaf_end() - deal.leaf_begin();
  }
  EXPECT_EQ(micro_batches, 4);
  // Nothing is left to assign.
  now_ += absl::Seconds(1);
  coordinator_->Tick();
  EXPECT_EQ(last.last_assignment().generation(), generation + 2);
}

TEST_F(CoordinatorTest, ReassignsWhenAWorkerIsMeasuredToBeSlow) {
  Make(/*servers=*/1, /*expected_workers=*/2);
  FakeWorker slow, fast;
  EnterAll({&slow, &fast});
  const int64_t generation = slow.last_assignment().generation();
  // As heartbeats of a second of computing each.
  const auto beat = [this](FakeWorker* worker, int second,
                           double micro_batch_seconds) {
    WorkerReport report;
    ProcessStatistics* statistics =
        report.mutable_heartbeat()->mutable_statistics();
    statistics->set_leaf_seconds(second);
    statistics->set_leaves(static_cast<int64_t>(second / micro_batch_seconds));
    ASSERT_TRUE(Say(worker, report).ok());
  };
  for (int second = 1; second <= 4; ++second) {
    EXPECT_EQ(fast.last_assignment().generation(), generation);
    now_ += absl::Seconds(1);
    beat(&slow, second, /*micro_batch_seconds=*/0.03);
    beat(&fast, second, /*micro_batch_seconds=*/0.01);
  }
  EXPECT_EQ(slow.last_assignment().leaf_end(), 1);
  EXPECT_EQ(fast.last_assignment().leaf_begin(), 1);
  EXPECT_EQ(fast.last_assignment().leaf_end(), 4);
  // The speeds stay the same, and so does the assignment.
  for (int second = 5; second <= 20; ++second) {
    now_ += absl::Seconds(1);
    beat(&slow, second, /*micro_batch_seconds=*/0.03);
    beat(&fast, second, /*micro_batch_seconds=*/0.01);
  }
  EXPECT_EQ(fast.last_assignment().generation(), generation + 1);
  // It stays with who is left.
  coordinator_->OnWorkerDisconnected(fast.incarnation);
  EXPECT_EQ(slow.last_assignment().leaf_end(), 4);
}

TEST_F(CoordinatorTest, NewerProcessWithTheSameRankFencesTheOlder) {
  Make(/*servers=*/1, /*expected_workers=*/1);
  FakeWorker old, newer;
  ASSERT_TRUE(Join(&old, /*rank=*/1).ok());
  ASSERT_TRUE(Join(&newer, /*rank=*/1).ok());
  EXPECT_EQ(old.closed.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(SayReady(&old).code(), absl::StatusCode::kAborted);
}

TEST_F(CoordinatorTest, RefusesOtherReleasesModelsAndData) {
  Make(/*servers=*/1, /*expected_workers=*/1);
  class Join join;
  join.set_protocol_version(kProtocolVersion + 1);
  FakeWorker worker;
  EXPECT_EQ(coordinator_->AddWorker(join, &worker).status().code(),
            absl::StatusCode::kFailedPrecondition);
  Enter(&worker);

  FakeWorker other;
  ASSERT_TRUE(Join(&other).ok());
  const Ready ready = ready_;
  ready_.mutable_table()->mutable_parameter(0)->set_name("z");
  absl::Status status = SayReady(&other);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("model"));
  ready_ = ready;
  ready_.mutable_data()->set_fingerprint(1);
  FakeWorker third;
  ASSERT_TRUE(Join(&third).ok());
  status = SayReady(&third);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("data"));
}

TEST_F(CoordinatorTest, RefusesReportsOutOfTurn) {
  Make(/*servers=*/2, /*expected_workers=*/1, /*steps=*/2, /*pieces=*/0,
       /*clip_norm=*/0, /*present=*/1);
  FakeWorker early;
  ASSERT_TRUE(Join(&early).ok());
  EXPECT_TRUE(early.orders.empty());
  absl::Status status = SayReady(&early);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);

  Make(/*servers=*/1, /*expected_workers=*/1);
  FakeWorker hasty;
  ASSERT_TRUE(Join(&hasty).ok());
  WorkerReport synced;
  synced.mutable_synced();
  status = Say(&hasty, synced);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(CoordinatorTest, AdmitsEachWorkerOnce) {
  Make(/*servers=*/1, /*expected_workers=*/2);
  FakeWorker first, second;
  ASSERT_TRUE(Join(&first).ok());
  WorkerReport beat;
  beat.mutable_heartbeat()->set_phase("data");
  ASSERT_TRUE(Say(&first, beat).ok());
  ASSERT_TRUE(Join(&second).ok());
  EXPECT_EQ(first.orders.size(), 1);
}

TEST_F(CoordinatorTest, AddsTheNormInTheOrderOfChunks) {
  Make(/*servers=*/2, /*expected_workers=*/1, /*steps=*/2, /*pieces=*/0,
       /*clip_norm=*/1);
  FakeWorker worker;
  Enter(&worker);
  ASSERT_TRUE(SaySums(/*shard=*/1, /*step=*/0, {4}).ok());
  EXPECT_EQ(servers_[0].orders.size(), 1);  // Configure only.
  ASSERT_TRUE(SaySums(/*shard=*/0, /*step=*/0, {1, 59}).ok());
  for (FakeServer& server : servers_) {
    ASSERT_TRUE(server.orders.back().has_norm());
    // sqrt(1 + 4 + 59) / 8
    EXPECT_DOUBLE_EQ(server.orders.back().norm().norm(), 1.0);
  }
  ASSERT_EQ(metrics_.size(), 1);
  EXPECT_EQ(metrics_[0]["step"], 1);
  EXPECT_DOUBLE_EQ(metrics_[0]["loss"].get<double>(), 2.0);
}

TEST_F(CoordinatorTest, TakesReportsOfOneServerLongBeforeAnothers) {
  Make(/*servers=*/2, /*expected_workers=*/1, /*steps=*/5);
  FakeWorker worker;
  Enter(&worker);
  for (int step = 0; step < 5; ++step) {
    ASSERT_TRUE(SaySums(/*shard=*/0, step, {1, 2}).ok());
  }
  EXPECT_TRUE(metrics_.empty());
  for (int step = 0; step < 5; ++step) {
    ASSERT_TRUE(SaySums(/*shard=*/1, step, {3}).ok());
    ASSERT_EQ(metrics_.size(), step + 1);
    EXPECT_EQ(metrics_.back()["step"], step + 1);
  }
  EXPECT_TRUE(worker.Got(CoordinatorOrder::kFinished));
  // Of a step that is over, or twice.
  EXPECT_THAT(SaySums(/*shard=*/1, 4, {3}),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(CoordinatorTest, FinishesWhenStepsAndEvaluationAreDone) {
  Make(/*servers=*/1, /*expected_workers=*/1, /*steps=*/1, /*pieces=*/2);
  FakeWorker worker;
  Enter(&worker);
  EXPECT_EQ(worker.last_assignment().piece_end(), 2);
  ASSERT_TRUE(SaySums(/*shard=*/0, /*step=*/0, {1, 1, 1}).ok());
  EXPECT_FALSE(worker.Got(CoordinatorOrder::kFinished));
  for (int piece = 0; piece < 2; ++piece) {
    // Twice each: repeats change nothing.
    for (int i = 0; i < 2 - piece; ++i) {
      WorkerReport report;
      report.mutable_evaluation()->set_version(1);
      report.mutable_evaluation()->set_piece(piece);
      report.mutable_evaluation()->set_loss_sum(3);
      report.mutable_evaluation()->set_correct(5);
      report.mutable_evaluation()->set_weight(10);
      ASSERT_TRUE(Say(&worker, report).ok());
    }
  }
  EXPECT_TRUE(worker.Got(CoordinatorOrder::kEvaluated));
  EXPECT_TRUE(worker.Got(CoordinatorOrder::kFinished));
  EXPECT_EQ(coordinator_->AwaitEnding(absl::ZeroDuration()),
            Coordinator::Ending::kNone);
  WorkerReport farewell;
  farewell.mutable_farewell()->mutable_statistics()->set_bytes_sent(77);
  ASSERT_TRUE(Say(&worker, farewell).ok());
  coordinator_->OnWorkerDisconnected(worker.incarnation);
  EXPECT_EQ(coordinator_->AwaitEnding(absl::ZeroDuration()),
            Coordinator::Ending::kTrained);
  EXPECT_TRUE(coordinator_->status().ok());
  const nlohmann::ordered_json summary =
      ParseOrderedJson(coordinator_->Summary());
  EXPECT_EQ(summary["status"], "done");
  EXPECT_EQ(summary["steps"], 1);
  EXPECT_EQ(summary["bytes_sent"], 77);
  EXPECT_DOUBLE_EQ(summary["evaluation"]["loss"].get<double>(), 0.3);
  EXPECT_DOUBLE_EQ(summary["evaluation"]["accuracy"].get<double>(), 0.5);
}

TEST_F(CoordinatorTest, TellsAWorkerThatDoesNotLeaveThatTheJobIsDone) {
  Make(/*servers=*/1, /*expected_workers=*/1, /*steps=*/1);
  FakeWorker worker;
  Enter(&worker);
  ASSERT_TRUE(SaySums(/*shard=*/0, /*step=*/0, {1, 1, 1}).ok());
  ASSERT_TRUE(worker.Got(CoordinatorOrder::kFinished));
  Pass(absl::Seconds(9), {&worker});
  EXPECT_TRUE(worker.closed.ok());
  Pass(absl::Seconds(2));
  EXPECT_THAT(worker.closed,
              StatusIs(absl::StatusCode::kOutOfRange, "the job is done"));
}

TEST_F(CoordinatorTest, FailsWithTheReasonOfAWorkerThatCannotStart) {
  Make(/*servers=*/1, /*expected_workers=*/1);
  FakeWorker worker;
  ASSERT_TRUE(Join(&worker).ok());
  WorkerReport report;
  report.mutable_failure()->set_message("train.csv:3: not a number");
  report.mutable_failure()->set_exit_code(2);
  ASSERT_TRUE(Say(&worker, report).ok());
  EXPECT_EQ(coordinator_->AwaitEnding(absl::ZeroDuration()),
            Coordinator::Ending::kFailed);
  EXPECT_THAT(std::string(coordinator_->status().message()),
              HasSubstr("train.csv:3: not a number"));
  EXPECT_EQ(coordinator_->GetStatus().phase(), StatusReply::FAILED);
  EXPECT_EQ(coordinator_->GetStatus().failure_exit_code(), 2);
}

TEST_F(CoordinatorTest, RefusesServersThatDoNotFit) {
  Make(/*servers=*/2, /*expected_workers=*/1);
  FakeServer server;
  Enlist enlist;
  enlist.set_protocol_version(kProtocolVersion);
  enlist.set_shard(2);
  EXPECT_EQ(coordinator_->AddServer(enlist, &server).code(),
            absl::StatusCode::kInvalidArgument);
  enlist.set_shard(1);
  EXPECT_EQ(coordinator_->AddServer(enlist, &server).code(),
            absl::StatusCode::kAlreadyExists);
  enlist.set_protocol_version(99);
  EXPECT_EQ(coordinator_->AddServer(enlist, &server).code(),
            absl::StatusCode::kFailedPrecondition);
}

// Was told that the job is done: it had come between the failure and the end of
// the process.
TEST_F(CoordinatorTest, RefusesServersWhenTheAttemptIsOver) {
  Enlist enlist;
  enlist.set_protocol_version(kProtocolVersion);
  enlist.set_shard(1);
  Make(/*servers=*/2, /*expected_workers=*/1, /*steps=*/2, /*pieces=*/0,
       /*clip_norm=*/0, /*present=*/1);
  coordinator_->Fail(absl::DataLossError("broken"));
  EXPECT_TRUE(absl::IsFailedPrecondition(
      coordinator_->AddServer(enlist, &servers_[1])));
  Make(/*servers=*/2, /*expected_workers=*/1);
  coordinator_->ServerGone(1);
  EXPECT_TRUE(absl::IsAborted(coordinator_->AddServer(enlist, &servers_[1])));
}

TEST_F(CoordinatorTest, SendsEverybodyToTheCoordinatorThatHasOvertakenIt) {
  Make(/*servers=*/2, /*expected_workers=*/1);
  FakeWorker worker;
  Enter(&worker);
  coordinator_->Overtaken(absl::FailedPreconditionError("attempt 2"));
  EXPECT_EQ(coordinator_->AwaitEnding(absl::ZeroDuration()),
            Coordinator::Ending::kFailed);
  EXPECT_TRUE(absl::IsAborted(worker.closed));
  EXPECT_TRUE(absl::IsAborted(servers_[1].closed));
  FakeWorker late;
  EXPECT_TRUE(absl::IsAborted(Join(&late)));
}

TEST_F(CoordinatorTest, SendsServersAwayWhenItIsOvertakenAtTheEnd) {
  Make(/*servers=*/2, /*expected_workers=*/1, /*steps=*/1);
  FakeWorker worker;
  Enter(&worker);
  EXPECT_TRUE(SaySums(0, 0, {1, 1}).ok());
  EXPECT_TRUE(SaySums(1, 0, {1}).ok());
  coordinator_->OnWorkerDisconnected(worker.incarnation);
  ASSERT_EQ(coordinator_->AwaitEnding(absl::ZeroDuration()),
            Coordinator::Ending::kTrained);
  coordinator_->Overtaken(absl::FailedPreconditionError("attempt 2"));
  EXPECT_TRUE(absl::IsAborted(servers_[1].closed));
}

}  // namespace
}  // namespace tributary
