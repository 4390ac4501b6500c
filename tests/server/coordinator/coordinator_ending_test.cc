// How the coordinator ends a job: the untrained tensors of the model, a program
// that ends the job early, and a failure.
#include <optional>
#include <string>

#include "gtest/gtest.h"
#include "tests/server/coordinator/coordinator_fixture.h"

namespace tributary {
namespace {

class CoordinatorEndingTest : public CoordinatorTest {
 protected:
  // A job of 4 steps and `pieces` pieces of an evaluation after the last one.
  void Begin(int64_t pieces = 0, bool checkpoints = false) {
    options_.checkpoints = &committer_;
    options_.job.mutable_checkpoint()->set_every_steps(checkpoints ? 100 : 0);
    Make(/*servers=*/1, /*expected_workers=*/2, /*steps=*/4, pieces);
    ready_.set_has_untrained(true);
    EnterAll({&workers_[0], &workers_[1]});
  }
  Coordinator::Ending Ending() {
    return coordinator_->AwaitEnding(absl::ZeroDuration());
  }
  void Steps(int64_t begin, int64_t end) {
    for (int64_t step = begin; step < end; ++step) {
      ASSERT_TRUE(SaySums(0, step, {1, 1, 1}).ok());
    }
  }
  static std::optional<class Finished> Finished(const FakeWorker& worker) {
    for (const CoordinatorOrder& order : worker.orders) {
      if (order.has_finished()) return order.finished();
    }
    return std::nullopt;
  }
  static WorkerReport Tensor(bool last) {
    WorkerReport report;
    report.mutable_untrained()->set_name("mask");
    report.mutable_untrained()->set_dtype("BOOL");
    report.mutable_untrained()->add_data("x");
    report.mutable_untrained()->set_last(last);
    return report;
  }
  static WorkerReport EndAt(int64_t version) {
    WorkerReport report;
    report.mutable_end_job()->set_version(version);
    return report;
  }
  static WorkerReport Fails() {
    WorkerReport report;
    report.mutable_failure()->set_message("a mistake");
    report.mutable_failure()->set_exit_code(2);
    return report;
  }
  void Report(int64_t version, SnapshotReport::Outcome outcome) {
    ServerReport report;
    report.mutable_snapshot()->set_version(version);
    report.mutable_snapshot()->set_outcome(outcome);
    ASSERT_TRUE(coordinator_->OnServerReport(0, report).ok());
  }
  // Writes the files of the checkpoint whose folder was asked for last.
  void Write(int64_t version) {
    coordinator_->OnCheckpointFolder(std::string("folder"));
    Report(version, SnapshotReport::TAKEN);
    Report(version, SnapshotReport::WRITTEN);
  }

  FakeCommitter committer_;
  FakeWorker workers_[2];
};

TEST_F(CoordinatorEndingTest, OneWorkerSendsTheUntrainedTensorsFirst) {
  Begin();
  Steps(0, 4);
  ASSERT_TRUE(Finished(workers_[0]).has_value());
  EXPECT_TRUE(Finished(workers_[0])->send_untrained());
  EXPECT_FALSE(Finished(workers_[1]).has_value());
  EXPECT_TRUE(
      absl::IsFailedPrecondition(Say(&workers_[1], Tensor(/*last=*/true))));
  ASSERT_TRUE(Say(&workers_[0], Tensor(/*last=*/false)).ok());
  EXPECT_TRUE(coordinator_->Facts().untrained.empty());
  WorkerReport last;
  last.mutable_untrained()->set_last(true);
  ASSERT_TRUE(Say(&workers_[0], last).ok());
  EXPECT_EQ(coordinator_->Facts().untrained.size(), 1);
}

TEST_F(CoordinatorEndingTest, AnotherWorkerSendsThemIfThatOneIsLost) {
  Begin();
  Steps(0, 4);
  ASSERT_TRUE(Say(&workers_[0], Tensor(/*last=*/false)).ok());
  coordinator_->OnWorkerDisconnected(workers_[0].incarnation);
  ASSERT_TRUE(Finished(workers_[1]).has_value());
  EXPECT_TRUE(Finished(workers_[1])->send_untrained());
  ASSERT_TRUE(Say(&workers_[1], Tensor(/*last=*/true)).ok());
  EXPECT_EQ(coordinator_->Facts().untrained.size(), 1);
  coordinator_->OnWorkerDisconnected(workers_[1].incarnation);
  EXPECT_EQ(Ending(), Coordinator::Ending::kTrained);
}

TEST_F(CoordinatorEndingTest, ALostWorkerThatWasNotAskedChangesNothing) {
  Begin();
  Steps(0, 4);
  coordinator_->OnWorkerDisconnected(workers_[1].incarnation);
  ASSERT_TRUE(Say(&workers_[0], Tensor(/*last=*/true)).ok());
  EXPECT_EQ(coordinator_->Facts().untrained.size(), 1);
}

TEST_F(CoordinatorEndingTest, WaitsForTheTensorsAsLongAsTheyArrive) {
  Begin();
  Steps(0, 4);
  for (int i = 0; i < 3; ++i) {
    Pass(absl::Seconds(8), {&workers_[0], &workers_[1]});
    WorkerReport part = Tensor(/*last=*/i == 2);
    part.mutable_untrained()->set_name(std::string(1, 'a' + i));
    ASSERT_TRUE(Say(&workers_[0], part).ok());
  }
  EXPECT_EQ(coordinator_->Facts().untrained.size(), 3);
  EXPECT_TRUE(Finished(workers_[1]).has_value());
}

// It may open its data for much longer than the others wait for its Farewell.
TEST_F(CoordinatorEndingTest, AWorkerThatIsNotReadyIsSentAway) {
  Begin();
  FakeWorker late;
  ASSERT_TRUE(Join(&late).ok());
  Steps(0, 4);
  EXPECT_TRUE(late.closed.ok());
  ASSERT_TRUE(Say(&workers_[0], Tensor(/*last=*/true)).ok());
  EXPECT_TRUE(absl::IsOutOfRange(late.closed)) << late.closed;
  EXPECT_FALSE(Finished(late).has_value());
  ASSERT_TRUE(Finished(workers_[1]).has_value());
  EXPECT_TRUE(workers_[1].closed.ok());
}

TEST_F(CoordinatorEndingTest, AProgramEndsTheJobAtItsVersion) {
  Begin();
  Steps(0, 2);
  ASSERT_TRUE(Say(&workers_[1], EndAt(2)).ok());
  EXPECT_EQ(Finished(workers_[0])->version(), 2);
  ASSERT_TRUE(Say(&workers_[0], EndAt(2)).ok());  // It has decided alike.
  EXPECT_EQ(coordinator_->Facts().final_version, 2);
  EXPECT_TRUE(coordinator_->FinalManifest().complete());
  EXPECT_EQ(coordinator_->FinalManifest().step(), 2);
}

TEST_F(CoordinatorEndingTest, TheEndWaitsForTheReportsOfItsVersion) {
  Begin();
  Steps(0, 1);
  ASSERT_TRUE(Say(&workers_[1], EndAt(2)).ok());
  EXPECT_FALSE(Finished(workers_[0]).has_value());
  Steps(1, 2);
  EXPECT_EQ(Finished(workers_[0])->version(), 2);
}

TEST_F(CoordinatorEndingTest, AJobDoesNotEndAtAnEarlierVersion) {
  Begin();
  Steps(0, 3);
  EXPECT_TRUE(absl::IsAborted(Say(&workers_[1], EndAt(2))));
  Steps(3, 4);
  EXPECT_EQ(Finished(workers_[0])->version(), 4);
}

TEST_F(CoordinatorEndingTest, AJobDoesNotEndBeforeItsFirstStep) {
  Begin();
  EXPECT_TRUE(absl::IsInvalidArgument(Say(&workers_[1], EndAt(0))));
}

TEST_F(CoordinatorEndingTest, ProgramsEndNoAsynchronousJob) {
  options_.job.mutable_exchange()
      ->mutable_parameter_server()
      ->mutable_consistency()
      ->mutable_asynchronous();
  Begin();
  EXPECT_TRUE(absl::IsInvalidArgument(Say(&workers_[1], EndAt(1))));
}

// The evaluation of the last version has failed in every worker.
TEST_F(CoordinatorEndingTest, AFailureOfTheLastEvaluationKeepsTheWeights) {
  Begin(/*pieces=*/2, /*checkpoints=*/true);
  Steps(0, 4);
  Write(4);
  EXPECT_TRUE(committer_.commits.empty());  // It waits for the evaluation.
  coordinator_->OnWorkerDisconnected(workers_[0].incarnation);
  ASSERT_TRUE(Say(&workers_[1], Fails()).ok());
  coordinator_->OnWorkerDisconnected(workers_[1].incarnation);
  EXPECT_EQ(Ending(), Coordinator::Ending::kNone);
  EXPECT_TRUE(absl::IsFailedPrecondition(Join(&workers_[0])));
  coordinator_->Tick();
  ASSERT_EQ(committer_.commits.size(), 1);
  coordinator_->OnCheckpointCommitted(absl::OkStatus());
  EXPECT_EQ(Ending(), Coordinator::Ending::kFailed);
  EXPECT_TRUE(absl::IsInvalidArgument(coordinator_->status()));
  EXPECT_EQ(committer_.commits[0].second.step(), 4);
  // When it resumes, the evaluation is still due.
  EXPECT_FALSE(committer_.commits[0].second.complete());
}

TEST_F(CoordinatorEndingTest, AFailureBeforeTheEndKeepsTheNewestWeights) {
  Begin(/*pieces=*/0, /*checkpoints=*/true);
  Steps(0, 1);
  coordinator_->OnWorkerDisconnected(workers_[0].incarnation);
  EXPECT_EQ(coordinator_->GetStatus().failure(), "");
  ASSERT_TRUE(Say(&workers_[1], Fails()).ok());
  // Before the checkpoint, too.
  EXPECT_NE(coordinator_->GetStatus().failure(), "");
  EXPECT_EQ(coordinator_->GetStatus().failure_exit_code(), 2);
  coordinator_->OnWorkerDisconnected(workers_[1].incarnation);
  for (int i = 0; i < 3 && committer_.commits.empty(); ++i) {
    coordinator_->Tick();
    Write(1);
  }
  ASSERT_EQ(committer_.commits.size(), 1);
  EXPECT_EQ(committer_.commits[0].second.step(), 1);
  coordinator_->OnCheckpointCommitted(absl::OkStatus());
  EXPECT_EQ(Ending(), Coordinator::Ending::kFailed);
}

TEST_F(CoordinatorEndingTest, AFailureWaitsForNoServerThatDoesNotAnswer) {
  Begin(/*pieces=*/0, /*checkpoints=*/true);
  Steps(0, 1);
  coordinator_->OnWorkerDisconnected(workers_[0].incarnation);
  ASSERT_TRUE(Say(&workers_[1], Fails()).ok());
  coordinator_->OnWorkerDisconnected(workers_[1].incarnation);
  EXPECT_EQ(Ending(), Coordinator::Ending::kNone);
  now_ += absl::Seconds(11);
  ServerReport beat;
  beat.mutable_heartbeat()->set_version(1);
  ASSERT_TRUE(coordinator_->OnServerReport(0, beat).ok());
  coordinator_->Tick();
  EXPECT_EQ(Ending(), Coordinator::Ending::kFailed);
}

TEST_F(CoordinatorEndingTest, AFailureWithoutCheckpointsIsAtOnce) {
  Begin();
  Steps(0, 1);
  coordinator_->OnWorkerDisconnected(workers_[0].incarnation);
  ASSERT_TRUE(Say(&workers_[1], Fails()).ok());
  EXPECT_EQ(Ending(), Coordinator::Ending::kFailed);
}

}  // namespace
}  // namespace tributary
