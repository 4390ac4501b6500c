// The coordinator and what waits for the disk: when a checkpoint is asked for,
// what its manifest says, and how the job ends around it.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/checkpoint.pb.h"
#include "proto/rendezvous.pb.h"
#include "server/coordinator/coordinator.h"
#include "tests/server/coordinator/coordinator_fixture.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Two servers, a worker, a checkpoint every 4 steps.
class CoordinatorCheckpointTest : public CoordinatorTest {
 protected:
  void Begin(int64_t steps, int64_t pieces = 0) {
    options_.job.mutable_checkpoint()->set_every_steps(4);
    options_.checkpoints = &committer_;
    options_.on_event = [this](const JobEvent& event) {
      events_.push_back(absl::StrCat(event.kind(), ": ", event.message()));
    };
    Make(/*servers=*/2, /*expected_workers=*/1, steps, pieces);
    Enter(&worker_);
  }

  void Step(int64_t step) {
    ASSERT_TRUE(SaySums(/*shard=*/0, step, {1, 2}).ok());
    ASSERT_TRUE(SaySums(/*shard=*/1, step, {3}).ok());
  }

  void Evaluate(int64_t version) {
    WorkerReport report;
    report.mutable_evaluation()->set_version(version);
    report.mutable_evaluation()->set_loss_sum(3);
    report.mutable_evaluation()->set_weight(10);
    ASSERT_TRUE(Say(&worker_, report).ok());
  }

  void SaySnapshot(int shard, int64_t version,
                   SnapshotReport::Outcome outcome) {
    ServerReport report;
    report.mutable_snapshot()->set_version(version);
    report.mutable_snapshot()->set_outcome(outcome);
    if (outcome == SnapshotReport::WRITTEN) {
      report.mutable_snapshot()->add_file()->set_name(absl::StrCat(shard));
    }
    ASSERT_TRUE(coordinator_->OnServerReport(shard, report).ok());
  }

  // From the folder to the last server's word.
  void Write(int64_t version) {
    coordinator_->OnCheckpointFolder(absl::StrCat("folder-", version));
    for (const FakeServer& server : servers_) {
      ASSERT_TRUE(server.orders.back().has_snapshot());
      EXPECT_EQ(server.orders.back().snapshot().version(), version);
    }
    for (const auto outcome :
         {SnapshotReport::TAKEN, SnapshotReport::WRITTEN}) {
      for (const int shard : {0, 1}) SaySnapshot(shard, version, outcome);
    }
  }

  bool WorkerFinished() const {
    return worker_.Got(CoordinatorOrder::kFinished);
  }
  Coordinator::Ending Ending() {
    return coordinator_->AwaitEnding(absl::ZeroDuration());
  }

  // Up to the moment when the worker is told that all is done.
  void Finish(const absl::Status& committed) {
    Begin(/*steps=*/2);
    Write(2);
    Step(0);
    Step(1);
    ASSERT_EQ(committer_.commits.size(), 1u);
    coordinator_->OnCheckpointCommitted(committed);
    ASSERT_TRUE(WorkerFinished());
  }

  FakeCommitter committer_;
  std::vector<std::string> events_;
  FakeWorker worker_;
};

TEST_F(CoordinatorCheckpointTest, TakesOneByTimeWhereStepsAreSlow) {
  options_.job.mutable_checkpoint()->set_every_seconds(10);
  Begin(/*steps=*/100);
  EXPECT_THAT(committer_.folders, ElementsAre(4));
  coordinator_->OnCheckpointFolder(std::string("folder-4"));
  now_ += absl::Seconds(10);
  Step(0);
  EXPECT_THAT(committer_.folders, ElementsAre(4, 3));
  Write(3);
  ASSERT_EQ(committer_.commits.size(), 1u);
  EXPECT_EQ(committer_.commits[0].second.step(), 3);
}

TEST_F(CoordinatorCheckpointTest, OnlyTheLastManifestSaysComplete) {
  Begin(/*steps=*/6, /*pieces=*/1);
  EXPECT_THAT(committer_.folders, ElementsAre(4));
  Write(4);
  // Committed as soon as all have written: that they were past it is enough.
  ASSERT_EQ(committer_.commits.size(), 1u);
  coordinator_->OnCheckpointCommitted(absl::OkStatus());
  const CheckpointManifest& first = committer_.commits[0].second;
  EXPECT_EQ(committer_.commits[0].first, "folder-4");
  EXPECT_EQ(first.step(), 4);
  EXPECT_EQ(first.servers(), 2);
  EXPECT_FALSE(first.complete());
  ASSERT_EQ(first.file_size(), 2);
  EXPECT_EQ(first.file(0).name(), "0");
  EXPECT_EQ(first.file(1).name(), "1");

  EXPECT_THAT(committer_.folders, ElementsAre(4, 6));
  Write(6);
  for (int64_t step = 0; step < 6; ++step) Step(step);
  // Without its evaluation the job is not all there.
  EXPECT_EQ(committer_.commits.size(), 1u);
  EXPECT_FALSE(WorkerFinished());
  Evaluate(6);
  ASSERT_EQ(committer_.commits.size(), 2u);
  const CheckpointManifest& last = committer_.commits[1].second;
  EXPECT_EQ(last.step(), 6);
  EXPECT_TRUE(last.complete());
  EXPECT_EQ(last.job_state().evaluation_step(), 6);
  EXPECT_TRUE(committer_.discarded.empty());
}

// All may be computed when a checkpoint of an earlier version is committed.
TEST_F(CoordinatorCheckpointTest, AnEarlierManifestIsNotCompleteAtTheEnd) {
  Begin(/*steps=*/6);
  coordinator_->OnCheckpointFolder(std::string("folder"));
  for (int64_t step = 0; step < 6; ++step) Step(step);
  for (const int shard : {0, 1}) {
    SaySnapshot(shard, 4, SnapshotReport::WRITTEN);
  }
  ASSERT_EQ(committer_.commits.size(), 1u);
  EXPECT_EQ(committer_.commits[0].second.step(), 4);
  EXPECT_FALSE(committer_.commits[0].second.complete());
}

TEST_F(CoordinatorCheckpointTest, FinishedWaitsForTheLastCheckpoint) {
  Begin(/*steps=*/2);
  Write(2);
  Step(0);
  EXPECT_THAT(committer_.commits, IsEmpty());
  Step(1);
  EXPECT_EQ(committer_.commits.size(), 1u);
  EXPECT_FALSE(WorkerFinished());
  EXPECT_EQ(Ending(), Coordinator::Ending::kNone);
  coordinator_->OnCheckpointCommitted(absl::OkStatus());
  EXPECT_TRUE(WorkerFinished());
  EXPECT_EQ(coordinator_->GetStatus().checkpoint_step(), 2);
  EXPECT_EQ(events_.back(), "checkpoint: a checkpoint of step 2 is complete");
}

// The disk may be full: then there is only the model at the end.
TEST_F(CoordinatorCheckpointTest, FinishesWhenTheLastCheckpointFails) {
  Begin(/*steps=*/2);
  Write(2);
  Step(0);
  Step(1);
  coordinator_->OnCheckpointCommitted(absl::UnavailableError("disk full"));
  EXPECT_TRUE(WorkerFinished());
  EXPECT_THAT(committer_.discarded, ElementsAre("folder-2"));
  EXPECT_THAT(committer_.warnings, ElementsAre("2: disk full"));
  EXPECT_EQ(events_.back(), "checkpoint_failed: disk full");
  EXPECT_EQ(coordinator_->GetStatus().checkpoint_failures(), 1);
  EXPECT_EQ(coordinator_->GetStatus().checkpoint_failure(), "disk full");
  coordinator_->OnWorkerDisconnected(worker_.incarnation);
  EXPECT_EQ(Ending(), Coordinator::Ending::kTrained);
}

// The state is in the checkpoint: another attempt has only to read it.
TEST_F(CoordinatorCheckpointTest, AServerLostAtTheEndIsReadFromTheCheckpoint) {
  Finish(absl::OkStatus());
  coordinator_->ServerGone(1);
  EXPECT_EQ(Ending(), Coordinator::Ending::kRolledBack);
  EXPECT_EQ(worker_.closed.code(), absl::StatusCode::kAborted);
}

// Workers have begun to leave, so nobody would compute it again.
TEST_F(CoordinatorCheckpointTest, AServerLostAtTheEndIsFatalWithoutCheckpoint) {
  Finish(absl::UnavailableError("disk full"));
  coordinator_->ServerGone(1);
  EXPECT_EQ(Ending(), Coordinator::Ending::kFailed);
  EXPECT_THAT(std::string(coordinator_->status().message()),
              HasSubstr("lost server 1 (10.0.0.2:1)"));
}

TEST_F(CoordinatorCheckpointTest, AServerLostBeforeTheLastCommitGoesBack) {
  Begin(/*steps=*/2);
  Write(2);
  Step(0);
  Step(1);
  coordinator_->ServerGone(1);
  EXPECT_EQ(Ending(), Coordinator::Ending::kRolledBack);
  // The answer comes too late to change anything.
  coordinator_->OnCheckpointCommitted(absl::OkStatus());
  EXPECT_EQ(Ending(), Coordinator::Ending::kRolledBack);
  EXPECT_FALSE(WorkerFinished());
}

TEST_F(CoordinatorCheckpointTest, AServerThatLeavesIsAwaitedForACheckpoint) {
  Begin(/*steps=*/20);
  Step(0);
  ServerReport report;
  report.mutable_leaving();
  ASSERT_TRUE(coordinator_->OnServerReport(1, report).ok());
  coordinator_->OnCheckpointFolder(std::string("folder-4"));
  EXPECT_THAT(committer_.discarded, ElementsAre("folder-4"));
  ASSERT_EQ(committer_.folders.size(), 2u);
  EXPECT_EQ(committer_.folders[1], 3);  // As soon as all can hear of it.
  EXPECT_EQ(Ending(), Coordinator::Ending::kNone);
  Write(3);
  EXPECT_EQ(Ending(), Coordinator::Ending::kNone);
  coordinator_->OnCheckpointCommitted(absl::OkStatus());
  EXPECT_EQ(Ending(), Coordinator::Ending::kRolledBack);
  EXPECT_EQ(servers_[1].closed.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(coordinator_->status().message()),
              HasSubstr("server 1 (10.0.0.2:1) leaves"));
}

TEST_F(CoordinatorCheckpointTest, StepSumsAfterADrainAreIgnored) {
  Begin(/*steps=*/20);
  Step(0);
  coordinator_->Drain();
  EXPECT_EQ(committer_.folders.size(), 1u);
  // The folder that was asked for is of step 4; step 3 can be had.
  coordinator_->OnCheckpointFolder(std::string("folder-4"));
  Write(3);
  for (int64_t step = 1; step < 4; ++step) Step(step);
  ASSERT_EQ(committer_.commits.size(), 1u);
  EXPECT_FALSE(committer_.commits[0].second.complete());
  EXPECT_EQ(Ending(), Coordinator::Ending::kNone);
  Step(4);
  coordinator_->OnCheckpointCommitted(absl::OkStatus());
  EXPECT_EQ(Ending(), Coordinator::Ending::kDrained);
  const size_t lines = metrics_.size();
  // Servers continue until they are told.
  Step(5);
  Step(6);
  EXPECT_EQ(metrics_.size(), lines);
  EXPECT_EQ(Ending(), Coordinator::Ending::kDrained);
  EXPECT_THAT(committer_.folders, ElementsAre(4, 3));
  coordinator_->FinishServers();
  EXPECT_TRUE(worker_.orders.back().finished().stopped());
  for (const FakeServer& server : servers_) {
    EXPECT_TRUE(server.orders.back().finish().stopped());
  }
  EXPECT_THAT(coordinator_->Summary(),
              testing::HasSubstr(R"("status": "stopped")"));
}

// The job waited for workers, until --no-worker-timeout failed it.
TEST_F(CoordinatorCheckpointTest, ADrainWithoutWorkersTakesTheNewestStep) {
  Begin(/*steps=*/20);
  Step(0);
  coordinator_->OnWorkerDisconnected(worker_.incarnation);
  coordinator_->Drain();
  coordinator_->OnCheckpointFolder(std::string("folder-4"));
  coordinator_->OnCheckpointFolder(std::string("folder-3"));
  EXPECT_EQ(Ending(), Coordinator::Ending::kNone);
  coordinator_->Tick();
  EXPECT_THAT(committer_.folders, ElementsAre(4, 3, 1));
  EXPECT_THAT(committer_.discarded, ElementsAre("folder-4", "folder-3"));
  Write(1);
  ASSERT_EQ(committer_.commits.size(), 1u);
  EXPECT_EQ(committer_.commits[0].second.step(), 1);
  coordinator_->OnCheckpointCommitted(absl::OkStatus());
  EXPECT_EQ(Ending(), Coordinator::Ending::kDrained);
  EXPECT_EQ(coordinator_->GetStatus().checkpoint_step(), 1);
}

// As when a scheduler stops all processes of the job at once.
TEST_F(CoordinatorCheckpointTest, ADrainEndsWhenTheLastWorkerLeavesDuringIt) {
  Begin(/*steps=*/20);
  Step(0);
  coordinator_->Drain();
  coordinator_->OnCheckpointFolder(std::string("folder-4"));
  coordinator_->OnCheckpointFolder(std::string("folder-3"));
  // One server has done the next step, the other one never will.
  ASSERT_TRUE(SaySums(/*shard=*/0, /*step=*/1, {1, 2}).ok());
  coordinator_->OnWorkerDisconnected(worker_.incarnation);
  for (int tick = 0; Ending() == Coordinator::Ending::kNone && tick < 100;
       ++tick) {
    coordinator_->Tick();
    coordinator_->OnCheckpointFolder(std::string("folder-1"));
    SaySnapshot(/*shard=*/0, 1, SnapshotReport::PASSED);
    SaySnapshot(/*shard=*/1, 1, SnapshotReport::WRITTEN);
  }
  EXPECT_EQ(Ending(), Coordinator::Ending::kDrained);
  EXPECT_EQ(coordinator_->GetStatus().checkpoint_step(), -1);
  EXPECT_THAT(committer_.warnings,
              ElementsAre(HasSubstr("1: the last worker left in the middle")));
}

TEST_F(CoordinatorCheckpointTest, AServerLeavesThoughNoWorkerIsLeft) {
  Begin(/*steps=*/20);
  coordinator_->OnWorkerDisconnected(worker_.incarnation);
  ServerReport report;
  report.mutable_leaving();
  ASSERT_TRUE(coordinator_->OnServerReport(1, report).ok());
  coordinator_->OnCheckpointFolder(std::string("folder-4"));
  coordinator_->OnCheckpointFolder(std::string("folder-2"));
  coordinator_->Tick();
  EXPECT_EQ(Ending(), Coordinator::Ending::kRolledBack);
}

// What is under way when the drain comes is for a far version.
TEST_F(CoordinatorCheckpointTest, ADrainTakesTheNextPossibleStep) {
  Begin(/*steps=*/20);
  coordinator_->OnCheckpointFolder(std::string("folder-4"));
  coordinator_->Drain();
  EXPECT_THAT(committer_.discarded, ElementsAre("folder-4"));
  EXPECT_THAT(committer_.folders, ElementsAre(4, 2));
}

// Leases are shorter during a drain: a pause of the coordinator's own process
// that ended no lease before would end them all.
TEST_F(CoordinatorCheckpointTest, ADrainForgivesAShortPause) {
  Begin(/*steps=*/20);
  coordinator_->OnCheckpointFolder(std::string("folder-4"));
  coordinator_->Drain();
  coordinator_->Tick();
  const absl::Duration pause = absl::Seconds(2.2);
  ASSERT_LT(pause, options_.lease / 4);
  now_ += pause;
  coordinator_->Tick();
  EXPECT_EQ(Ending(), Coordinator::Ending::kNone);
  // The others have been silent.
  for (int i = 0; i < 22; ++i) {
    now_ += absl::Milliseconds(100);
    coordinator_->Tick();
  }
  EXPECT_EQ(Ending(), Coordinator::Ending::kRolledBack);
}

}  // namespace
}  // namespace tributary
