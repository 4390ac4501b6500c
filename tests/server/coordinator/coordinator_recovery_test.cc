// What the coordinator does when servers or workers are lost, or never come.
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/coordinator.h"
#include "server/membership/peer_checks.h"
#include "tests/server/coordinator/coordinator_fixture.h"

namespace tributary {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(CoordinatorTest, GoesBackWhenAServerIsGone) {
  Make(/*servers=*/2, /*expected_workers=*/1);
  FakeWorker worker;
  Enter(&worker);
  coordinator_->ServerGone(1);
  EXPECT_EQ(coordinator_->AwaitEnding(absl::ZeroDuration()),
            Coordinator::Ending::kRolledBack);
  EXPECT_THAT(std::string(coordinator_->status().message()),
              HasSubstr("lost server 1 (10.0.0.2:1)"));
  EXPECT_EQ(coordinator_->Facts().workers_at_ending, 1);
  for (const absl::Status& closed : {worker.closed, servers_[0].closed}) {
    EXPECT_EQ(closed.code(), absl::StatusCode::kAborted);
  }
  // Nobody is let into what is over.
  FakeWorker late;
  EXPECT_EQ(Join(&late).code(), absl::StatusCode::kAborted);
}

TEST_F(CoordinatorTest, GoesBackWhenAServerIsSilentForLongerThanItsLease) {
  Make(/*servers=*/2, /*expected_workers=*/1);
  FakeWorker worker;
  Enter(&worker);
  ServerReport alive;
  alive.mutable_heartbeat();
  for (int i = 0; i < 3; ++i) {
    Pass(options_.lease, {&worker});
    ASSERT_TRUE(coordinator_->OnServerReport(1, alive).ok());
  }
  EXPECT_EQ(coordinator_->AwaitEnding(absl::ZeroDuration()),
            Coordinator::Ending::kNone);
  Pass(options_.lease + absl::Seconds(1), {&worker});
  EXPECT_EQ(coordinator_->AwaitEnding(absl::ZeroDuration()),
            Coordinator::Ending::kRolledBack);
  EXPECT_THAT(std::string(servers_[1].closed.message()),
              HasSubstr("server 1 was silent for longer than its lease"));
}

// It heard nobody because it stood still itself.
TEST_F(CoordinatorTest, DoesNotTakeItsOwnPauseForTheSilenceOfOthers) {
  Make(/*servers=*/2, /*expected_workers=*/1);
  FakeWorker worker;
  Enter(&worker);
  coordinator_->Tick();
  now_ += 10 * options_.lease;
  coordinator_->Tick();
  EXPECT_EQ(coordinator_->AwaitEnding(absl::ZeroDuration()),
            Coordinator::Ending::kNone);
  EXPECT_TRUE(worker.closed.ok());
}

TEST_F(CoordinatorTest, FailsWhenAServerDoesNotCome) {
  Make(/*servers=*/2, /*expected_workers=*/1, /*steps=*/2, /*pieces=*/0,
       /*clip_norm=*/0, /*present=*/1);
  now_ += options_.no_server_timeout + absl::Seconds(1);
  coordinator_->Tick();
  EXPECT_EQ(coordinator_->AwaitEnding(absl::ZeroDuration()),
            Coordinator::Ending::kFailed);
  EXPECT_THAT(std::string(coordinator_->status().message()),
              HasSubstr("tributary server --shard 1 --servers 2"));
}

TEST_F(CoordinatorTest, FailsWhenNoWorkerComes) {
  Make(/*servers=*/1, /*expected_workers=*/1);
  now_ += options_.no_worker_timeout + absl::Seconds(1);
  coordinator_->Tick();
  EXPECT_THAT(std::string(coordinator_->status().message()),
              HasSubstr("no worker for"));
}

// Both workers show signs of life; one of them hangs.
class StallTest : public CoordinatorTest {
 protected:
  void Begin(const std::string& first_phase, const std::string& second_phase) {
    Make(/*servers=*/1, /*expected_workers=*/2, /*steps=*/9);
    EnterAll({&first_, &second_});
    now_ += absl::Seconds(1);
    ASSERT_TRUE(SaySums(/*shard=*/0, /*step=*/0, {1, 1, 1}).ok());
    phases_ = {{&first_, first_phase}, {&second_, second_phase}};
  }

  void PassAlive(absl::Duration time) {
    for (absl::Duration t; t < time; t += absl::Seconds(1)) {
      now_ += absl::Seconds(1);
      for (const auto& [worker, phase] : phases_) {
        WorkerReport beat;
        beat.mutable_heartbeat()->set_step(1);
        beat.mutable_heartbeat()->set_phase(phase);
        if (!worker->closed.ok()) continue;
        ASSERT_TRUE(Say(worker, beat).ok());
      }
      coordinator_->Tick();
    }
  }

  void SayServerHas(int64_t version) {
    ServerReport beat;
    beat.mutable_heartbeat()->set_version(version);
    ASSERT_TRUE(coordinator_->OnServerReport(/*shard=*/0, beat).ok());
  }

  Coordinator::Ending Ending() {
    return coordinator_->AwaitEnding(absl::ZeroDuration());
  }

  FakeWorker first_, second_;
  std::map<FakeWorker*, std::string> phases_;
};

TEST_F(StallTest, DoesWithoutAWorkerThatHoldsAStepUpForTooLong) {
  Begin("exchange", "backward");
  PassAlive(options_.stall_timeout - absl::Seconds(1));
  EXPECT_TRUE(second_.closed.ok());
  PassAlive(absl::Seconds(2));
  EXPECT_EQ(second_.closed.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(second_.closed.message()),
              AllOf(HasSubstr("step 2 has not ended for 10m"),
                    HasSubstr("the others wait for worker 1")));
  EXPECT_EQ(Ending(), Coordinator::Ending::kNone);
  EXPECT_EQ(first_.last_assignment().leaf_end(), 4);
  // It gets as long for its part.
  PassAlive(options_.stall_timeout - absl::Seconds(5));
  EXPECT_EQ(Ending(), Coordinator::Ending::kNone);
  EXPECT_TRUE(first_.closed.ok());
}

TEST_F(StallTest, BeginsAgainWhereNobodyCanBeBlamed) {
  Begin("exchange", "exchange");
  PassAlive(options_.stall_timeout + absl::Seconds(1));
  EXPECT_EQ(Ending(), Coordinator::Ending::kRolledBack);
  EXPECT_THAT(std::string(coordinator_->status().message()),
              HasSubstr("step 2 has not ended for 10m"));
  EXPECT_EQ(first_.closed.code(), absl::StatusCode::kAborted);
}

TEST_F(StallTest, DoesNotBelieveThatAWorkerEvaluatesWhenNothingIsDue) {
  Begin("exchange", "evaluate");
  PassAlive(options_.stall_timeout + absl::Seconds(1));
  EXPECT_EQ(second_.closed.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(first_.closed.ok());
}

// What servers say about a step counts, not what workers say about themselves.
TEST_F(StallTest, RemovesTheWorkerWhoseMicroBatchIsMissing) {
  Begin("backward", "exchange");
  ServerReport beat;
  beat.mutable_heartbeat()->set_version(1);
  beat.mutable_heartbeat()->mutable_missing()->set_step(1);
  beat.mutable_heartbeat()->mutable_missing()->set_leaf(3);
  ASSERT_TRUE(coordinator_->OnServerReport(/*shard=*/0, beat).ok());
  PassAlive(options_.stall_timeout + absl::Seconds(1));
  EXPECT_EQ(second_.closed.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(first_.closed.ok());
}

TEST_F(StallTest, FailsTheJobIfAStepStallsWithoutEnd) {
  Begin("exchange", "backward");
  for (int stall = 0; stall < 3; ++stall) {
    PassAlive(options_.stall_timeout + absl::Seconds(1));
    if (Ending() == Coordinator::Ending::kNone && !second_.closed.ok()) {
      phases_.erase(&second_);
      second_ = FakeWorker();
      ASSERT_TRUE(Join(&second_).ok());
      ASSERT_TRUE(SayReady(&second_).ok());
      SaySynced(&second_);
      phases_[&second_] = "backward";
    }
  }
  EXPECT_EQ(Ending(), Coordinator::Ending::kFailed);
  EXPECT_THAT(std::string(coordinator_->status().message()),
              HasSubstr("the others wait for worker 1"));
}

TEST_F(StallTest, RemovesAWorkerThatContributesNothingToTheFirstStep) {
  Make(/*servers=*/1, /*expected_workers=*/2, /*steps=*/9);
  EnterAll({&first_, &second_});
  phases_ = {{&first_, "exchange"}, {&second_, "forward"}};
  PassAlive(options_.stall_timeout + absl::Seconds(1));
  EXPECT_EQ(second_.closed.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(coordinator_->TakeNotices(),
              ElementsAre(AllOf(HasSubstr("step 1 has not ended for 10m"),
                                HasSubstr("the others wait for worker 1"))));
  EXPECT_EQ(first_.last_assignment().leaf_end(), 4);
}

// The first steps may take long, because nothing is known about the job.
TEST_F(StallTest, WaitsForALongFirstStepOfAWorkerThatComputes) {
  Make(/*servers=*/1, /*expected_workers=*/1, /*steps=*/9);
  Enter(&first_);
  SayServerHas(0);
  WorkerReport beat;
  beat.mutable_heartbeat()->set_phase("forward");
  for (int64_t leaves = 1; leaves < 4; ++leaves) {
    beat.mutable_heartbeat()->mutable_statistics()->set_leaves(leaves);
    for (absl::Duration t; t < options_.stall_timeout - absl::Seconds(9);
         t += absl::Seconds(1)) {
      now_ += absl::Seconds(1);
      ASSERT_TRUE(Say(&first_, beat).ok());
      coordinator_->Tick();
    }
  }
  EXPECT_TRUE(first_.closed.ok());
  EXPECT_EQ(Ending(), Coordinator::Ending::kNone);
}

TEST_F(StallTest, RemovesAWorkerThatDoesNotEvaluate) {
  options_.job.mutable_evaluation()->set_batch(10);
  Make(/*servers=*/1, /*expected_workers=*/2, /*steps=*/1, /*pieces=*/4);
  EnterAll({&first_, &second_});
  ASSERT_TRUE(SaySums(/*shard=*/0, /*step=*/0, {1, 1, 1}).ok());
  phases_ = {{&first_, "exchange"}, {&second_, "evaluate"}};
  const auto evaluate = [&](int64_t piece) {
    WorkerReport report;
    report.mutable_evaluation()->set_version(1);
    report.mutable_evaluation()->set_piece(piece);
    report.mutable_evaluation()->set_weight(10);
    EXPECT_TRUE(Say(&first_, report).ok());
  };
  // Each piece shows that the evaluation goes on.
  for (const int64_t piece : {0, 1}) {
    PassAlive(options_.stall_timeout - absl::Seconds(5));
    EXPECT_TRUE(second_.closed.ok());
    evaluate(piece);
  }
  PassAlive(options_.stall_timeout + absl::Seconds(1));
  EXPECT_EQ(second_.closed.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(second_.closed.message()),
              HasSubstr("the evaluation after step 1 has not ended"));
  EXPECT_EQ(first_.last_assignment().piece_end(), 4);
}

// The job waits for what one worker was asked for.
class InitialWeightsTest : public StallTest {
 protected:
  void Open() {
    Make(/*servers=*/1, /*expected_workers=*/2, /*steps=*/9);
    for (FakeWorker* worker : {&first_, &second_}) {
      ASSERT_TRUE(Join(worker).ok());
      ASSERT_TRUE(SayReady(worker).ok());
    }
    SayConfigured();
    ASSERT_TRUE(first_.Got(CoordinatorOrder::kOpen));
    phases_ = {{&first_, "exchange"}, {&second_, "exchange"}};
  }
};

TEST_F(InitialWeightsTest, RemovesAWorkerThatDoesNotSendThem) {
  Open();
  SayServerHas(-1);
  SaySynced(&first_);  // It claims to have received them.
  PassAlive(options_.stall_timeout + absl::Seconds(1));
  EXPECT_EQ(first_.closed.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(coordinator_->TakeNotices(),
              ElementsAre(HasSubstr("worker 0 (host , process 0) has not sent "
                                    "the initial weights within 10m")));
  EXPECT_TRUE(second_.closed.ok());
  EXPECT_TRUE(second_.orders.back().open().initialize());
}

TEST_F(InitialWeightsTest, RemovesWorkersThatDoNotFetchThem) {
  Open();
  SayServerHas(0);
  PassAlive(options_.stall_timeout + absl::Seconds(2));
  for (const FakeWorker* worker : {&first_, &second_}) {
    EXPECT_EQ(worker->closed.code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_THAT(std::string(worker->closed.message()),
                HasSubstr("has not reported Synced within 10m"));
  }
}

TEST_F(InitialWeightsTest, WaitsForTheOthersNoLongerThanTheStartTimeout) {
  Open();
  SayServerHas(0);
  SaySynced(&first_);
  PassAlive(options_.start_timeout + absl::Seconds(1));
  EXPECT_EQ(first_.last_assignment().leaf_end(), 4);
  EXPECT_TRUE(second_.closed.ok());
}

// With recovery.journal. Server 0 is new, server 1 has been there before.
class CoordinatorReplicaTest : public CoordinatorTest {
 protected:
  void MakeNextAttempt(bool from_memory) {
    options_.job.mutable_recovery()->set_journal(true);
    options_.resume_from_memory = from_memory;
    options_.run = run_;
    options_.on_begin = [this](const Beginning& beginning) {
      begun_ = beginning;
    };
    Make(/*servers=*/2, /*expected_workers=*/1, /*steps=*/9, /*pieces=*/0,
         /*clip_norm=*/0, /*present=*/1);
    Enlist enlist;
    enlist.set_protocol_version(kProtocolVersion);
    enlist.set_shard(1);
    enlist.set_address("10.0.0.2:1");
    JournalHoldings* const held = enlist.mutable_journal();
    held->mutable_scope()->set_job_id(JobId(options_.job));
    held->mutable_scope()->set_signature(
        ArenaLayout::Create(ready_.table())->signature());
    held->mutable_scope()->set_servers(2);
    held->mutable_scope()->set_run("run");
    for (const int shard : {0, 1}) {
      held->add_whole()->set_shard(shard);
      held->mutable_whole(shard)->set_version(6);
    }
    held->add_state()->set_version(6);
    held->mutable_state(0)->mutable_job_state()->set_samples(48);
    held->mutable_state(0)->mutable_job_state()->set_evaluation_step(4);
    EXPECT_TRUE(coordinator_->AddServer(enlist, &servers_[1]).ok());
    ASSERT_TRUE(Join(&worker_).ok());
    ASSERT_TRUE(SayReady(&worker_).ok());
  }
  void SayReplicated() {
    ServerReport report;
    report.mutable_replicated();
    for (const int shard : {0, 1}) {
      EXPECT_TRUE(coordinator_->OnServerReport(shard, report).ok());
    }
  }

  void SayVersion(int shard, int64_t version) {
    ServerReport report;
    report.mutable_heartbeat()->set_version(version);
    EXPECT_TRUE(coordinator_->OnServerReport(shard, report).ok());
  }
  // Trains to the last step's sums.
  void TrainToTheEnd() {
    SayConfigured();
    SayReplicated();
    SaySynced(&worker_);
    for (int64_t step = 6; step < 9; ++step) {
      EXPECT_TRUE(SaySums(0, step, {1, 1}).ok());
      EXPECT_TRUE(SaySums(1, step, {1}).ok());
    }
  }

  std::string run_ = "run";
  Beginning begun_;
  FakeWorker worker_;
};

TEST_F(CoordinatorReplicaTest, GoesOnFromWhatServersHaveInMemory) {
  MakeNextAttempt(/*from_memory=*/true);
  EXPECT_EQ(begun_.step, 6);
  EXPECT_EQ(begun_.job_state.evaluation_step(), 4);
  EXPECT_EQ(begun_.holders, (std::vector<int>{1, 1}));
  for (const FakeServer& server : servers_) {
    ASSERT_EQ(server.orders.size(), 1u);
    const JournalStart& start = server.orders[0].configure().journal();
    EXPECT_EQ(start.version(), 6);
    EXPECT_EQ(start.holder(), 1);
    EXPECT_EQ(start.address(), "10.0.0.2:1");
    // The next loss may come before there is a step that says it.
    EXPECT_EQ(start.job_state().samples(), 48);
    EXPECT_EQ(server.orders[0].configure().journal_scope().run(), "run");
  }
  // Nobody begins before every server's state is kept by another one.
  SayConfigured();
  ASSERT_EQ(servers_[0].orders.size(), 2u);
  EXPECT_EQ(servers_[0].orders[1].replicate().address(), "10.0.0.2:1");
  EXPECT_EQ(servers_[1].orders[1].replicate().address(), "");
  EXPECT_EQ(worker_.orders.size(), 1u);
  SayReplicated();
  ASSERT_EQ(worker_.orders.size(), 2u);
  EXPECT_FALSE(worker_.orders[1].open().initialize());
  SaySynced(&worker_);
  EXPECT_TRUE(SaySums(0, 6, {1, 1}).ok());
  EXPECT_TRUE(SaySums(1, 6, {1}).ok());
  const GradientNorm& norm = servers_[1].orders.back().norm();
  EXPECT_EQ(norm.step(), 6);
  EXPECT_EQ(norm.job_state().samples(), 56);
}

TEST_F(CoordinatorReplicaTest, BeginsAnewWhereItIsNotToGoOn) {
  MakeNextAttempt(/*from_memory=*/false);
  EXPECT_EQ(begun_.step, 0);
  EXPECT_FALSE(begun_.resumes());
  EXPECT_FALSE(servers_[0].orders[0].configure().has_journal());
}

TEST_F(CoordinatorReplicaTest, LeavesAloneWhatIsOfAnotherRun) {
  run_ = "another run";
  MakeNextAttempt(/*from_memory=*/true);
  EXPECT_FALSE(begun_.resumes());
}

// The next server has the model.
TEST_F(CoordinatorReplicaTest, EndsWithoutAServerThatIsLostAtTheEnd) {
  MakeNextAttempt(/*from_memory=*/true);
  TrainToTheEnd();
  SayVersion(0, 9);
  SayVersion(1, 9);
  ASSERT_TRUE(worker_.orders.back().has_finished());
  coordinator_->ServerGone(1);
  EXPECT_EQ(coordinator_->AwaitEnding(absl::ZeroDuration()),
            Coordinator::Ending::kNone);
  coordinator_->OnWorkerDisconnected(worker_.incarnation);
  EXPECT_EQ(coordinator_->AwaitEnding(absl::ZeroDuration()),
            Coordinator::Ending::kTrained);
}

TEST_F(CoordinatorReplicaTest, FinishesWhenAllServersHaveTheLastVersion) {
  MakeNextAttempt(/*from_memory=*/true);
  TrainToTheEnd();
  EXPECT_FALSE(worker_.orders.back().has_finished());
  SayVersion(0, 9);
  SayVersion(1, 8);
  EXPECT_FALSE(worker_.orders.back().has_finished());
  SayVersion(1, 9);
  EXPECT_TRUE(worker_.orders.back().has_finished());
}

// Server 1 has lost its connections in the last step, and no replica of the
// last version exists. The worker must compute the step again.
TEST_F(CoordinatorReplicaTest, GoesBackIfTheLastVersionHasNoReplicas) {
  MakeNextAttempt(/*from_memory=*/true);
  TrainToTheEnd();
  SayVersion(0, 8);
  coordinator_->OnWorkerDisconnected(worker_.incarnation);
  FakeWorker again;
  EXPECT_TRUE(Join(&again).ok());
  coordinator_->ServerGone(1);
  EXPECT_EQ(coordinator_->AwaitEnding(absl::ZeroDuration()),
            Coordinator::Ending::kRolledBack);
  EXPECT_TRUE(absl::IsAborted(again.closed)) << again.closed;
}

// A server's last reports come while the attempt is being taken down.
TEST_F(CoordinatorReplicaTest, GivesNoOrdersWhenTheAttemptIsOver) {
  MakeNextAttempt(/*from_memory=*/true);
  ServerReport configured;
  configured.mutable_configured();
  ASSERT_TRUE(coordinator_->OnServerReport(1, configured).ok());
  coordinator_->ServerGone(1);
  const size_t orders = servers_[0].orders.size();
  ASSERT_TRUE(coordinator_->OnServerReport(0, configured).ok());
  EXPECT_EQ(servers_[0].orders.size(), orders);
}

TEST_F(CoordinatorReplicaTest, GoesBackWhenCopiesCannotBeKept) {
  MakeNextAttempt(/*from_memory=*/true);
  ServerReport report;
  report.mutable_replication_failure()->set_message("10.0.0.2:1: no route");
  ASSERT_TRUE(coordinator_->OnServerReport(0, report).ok());
  EXPECT_EQ(coordinator_->AwaitEnding(absl::ZeroDuration()),
            Coordinator::Ending::kRolledBack);
  EXPECT_FALSE(coordinator_->Facts().has_trained);
  EXPECT_TRUE(coordinator_->Facts().memory_failed);
  EXPECT_THAT(std::string(coordinator_->status().message()),
              AllOf(HasSubstr("server 0"), HasSubstr("no route")));
}

}  // namespace
}  // namespace tributary
