// What the coordinator does when an evaluation is complete: early stopping and
// the checkpoint of the best version.
#include <optional>
#include <string>

#include "common/base/json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/coordinator/coordinator_fixture.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class CoordinatorEvaluationTest : public CoordinatorTest {
 protected:
  // A job of 8 steps with an evaluation after every second one.
  void Begin(int64_t checkpoint_every = 0) {
    options_.job.mutable_evaluation()->set_every_steps(2);
    options_.job.mutable_checkpoint()->set_every_steps(checkpoint_every);
    options_.checkpoints = &committer_;
    Make(/*servers=*/2, /*expected_workers=*/1, /*steps=*/8, /*pieces=*/1);
    Enter(&worker_);
  }
  void Steps(int64_t begin, int64_t end) {
    for (int64_t step = begin; step < end; ++step) {
      ASSERT_TRUE(SaySums(0, step, {1, 1}).ok());
      ASSERT_TRUE(SaySums(1, step, {1}).ok());
    }
  }
  void Evaluate(int64_t version, double loss) {
    WorkerReport report;
    report.mutable_evaluation()->set_version(version);
    report.mutable_evaluation()->set_loss_sum(loss * 8);
    report.mutable_evaluation()->set_weight(8);
    ASSERT_TRUE(Say(&worker_, report).ok());
  }
  void Report(int shard, int64_t version, SnapshotReport::Outcome outcome) {
    ServerReport report;
    report.mutable_snapshot()->set_version(version);
    report.mutable_snapshot()->set_outcome(outcome);
    ASSERT_TRUE(coordinator_->OnServerReport(shard, report).ok());
  }
  // The newest version of which the worker knows that its evaluation is
  // complete.
  int64_t Evaluated() const {
    int64_t version = 0;
    for (const CoordinatorOrder& order : worker_.orders) {
      if (order.has_evaluated()) version = order.evaluated().version();
    }
    return version;
  }
  // The version of Finished; absent if it was not sent.
  std::optional<int64_t> Finished() const {
    for (const CoordinatorOrder& order : worker_.orders) {
      if (order.has_finished()) return order.finished().version();
    }
    return std::nullopt;
  }
  // The version of the newest snapshot that a server was told to take; -1:
  // none.
  int64_t Ordered() const {
    int64_t version = -1;
    for (const ServerOrder& order : servers_[1].orders) {
      if (order.has_snapshot()) version = order.snapshot().version();
    }
    return version;
  }

  FakeCommitter committer_;
  FakeWorker worker_;
};

TEST_F(CoordinatorEvaluationTest, StopsWithTheEvaluatedVersion) {
  options_.job.mutable_stop_when()->set_patience(1);
  Begin();
  Steps(0, 2);
  Evaluate(2, 3.0);
  EXPECT_EQ(Evaluated(), 2);
  Steps(2, 4);
  Evaluate(4, 3.5);
  EXPECT_EQ(Evaluated(), 2) << "a worker must not compute step 4";
  EXPECT_EQ(Finished(), 4);
  EXPECT_EQ(coordinator_->Facts().final_version, 4);
  EXPECT_TRUE(coordinator_->FinalManifest().complete());
  EXPECT_EQ(coordinator_->FinalManifest().step(), 4);
  const auto summary = ParseOrderedJson(coordinator_->Summary());
  EXPECT_EQ(summary["steps"], 4);
  EXPECT_EQ(summary["stop_reason"],
            "the evaluation loss has not improved in 1 evaluations "
            "(stop_when.patience); its best is 3");
}

TEST_F(CoordinatorEvaluationTest, TellsWorkersTheRateFactorOfAPlateau) {
  ScheduleSpec* const schedule = options_.job.mutable_schedule();
  schedule->set_decay(ScheduleSpec::PLATEAU);
  schedule->set_decay_factor(0.5);
  schedule->set_patience(0);
  Begin();
  std::vector<double> factors;
  for (const int64_t version : {2, 4, 6}) {
    Steps(version - 2, version);
    Evaluate(version, version == 6 ? 1 : 3);
    ASSERT_TRUE(worker_.orders.back().has_evaluated());
    factors.push_back(worker_.orders.back().evaluated().rate_factor());
  }
  EXPECT_THAT(factors, ElementsAre(1, 0.5, 0.5));
  FakeWorker late;
  Enter(&late);
  std::optional<Deal> deal;
  for (const CoordinatorOrder& order : late.orders) {
    if (order.has_deal()) deal = order.deal();
  }
  ASSERT_TRUE(deal.has_value());
  EXPECT_EQ(deal->evaluated_version(), 6);
  EXPECT_EQ(deal->rate_factor(), 0.5);
}

TEST_F(CoordinatorEvaluationTest, AnEarlyStopTakesTheLastCheckpointThere) {
  options_.job.mutable_stop_when()->set_target(3);
  Begin(/*checkpoint_every=*/3);
  // The checkpoint of version 6, which will not exist, is under way.
  ASSERT_THAT(committer_.folders, ElementsAre(3));
  coordinator_->OnCheckpointFolder("c/3");
  Steps(0, 2);
  Evaluate(2, 2.5);
  EXPECT_THAT(committer_.discarded, ElementsAre("c/3"));
  EXPECT_EQ(Finished(), std::nullopt) << "the state is not safe yet";
  ASSERT_THAT(committer_.folders, ElementsAre(3, 2));
  coordinator_->OnCheckpointFolder("c/2");
  EXPECT_EQ(Ordered(), 2);
  for (const int shard : {0, 1}) Report(shard, 2, SnapshotReport::WRITTEN);
  ASSERT_THAT(committer_.commits, SizeIs(1));
  EXPECT_TRUE(committer_.commits[0].second.complete());
  EXPECT_FALSE(committer_.commits[0].second.job_state().stop_reason().empty());
  coordinator_->OnCheckpointCommitted(absl::OkStatus());
  EXPECT_EQ(Finished(), 2);
}

TEST_F(CoordinatorEvaluationTest, WorkersWaitUntilTheBestVersionIsCopied) {
  options_.job.mutable_checkpoint()->set_best(
      EvaluationMetric::EVALUATION_LOSS);
  Begin();
  Steps(0, 2);
  Evaluate(2, 3.0);
  EXPECT_EQ(Evaluated(), 0);
  ASSERT_THAT(committer_.folders, ElementsAre(2));
  coordinator_->OnCheckpointFolder("c/2");
  EXPECT_EQ(Ordered(), 2);
  Report(0, 2, SnapshotReport::TAKEN);
  EXPECT_EQ(Evaluated(), 0) << "server 1 has not copied the version";
  Report(1, 2, SnapshotReport::TAKEN);
  EXPECT_EQ(Evaluated(), 2);
  Steps(2, 3);  // Training continues while the files are written.
  for (const int shard : {0, 1}) Report(shard, 2, SnapshotReport::WRITTEN);
  EXPECT_THAT(committer_.commits, IsEmpty());
  ASSERT_THAT(committer_.bests, SizeIs(1));
  const CheckpointManifest& best = committer_.bests[0].second;
  EXPECT_EQ(best.version(), 2);
  EXPECT_FALSE(best.complete());
  EXPECT_EQ(best.job_state().evaluation_loss(), 3.0);
  EXPECT_EQ(best.job_state().best_step(), 2);
  coordinator_->OnCheckpointCommitted(absl::OkStatus());
  Steps(3, 4);
  Evaluate(4, 3.5);
  EXPECT_EQ(Evaluated(), 4) << "a worse version is not copied";
  EXPECT_THAT(committer_.folders, ElementsAre(2));
}

TEST_F(CoordinatorEvaluationTest, AFailedCopyOfTheBestVersionStopsNothing) {
  options_.job.mutable_checkpoint()->set_best(
      EvaluationMetric::EVALUATION_LOSS);
  Begin();
  Steps(0, 2);
  Evaluate(2, 3.0);
  coordinator_->OnCheckpointFolder(absl::UnavailableError("the disk is full"));
  EXPECT_EQ(Evaluated(), 2);
  EXPECT_THAT(committer_.warnings, ElementsAre("2: the disk is full"));
  Steps(2, 4);
  Evaluate(4, 2.0);
  EXPECT_THAT(committer_.folders, ElementsAre(2, 4));
}

TEST_F(CoordinatorEvaluationTest, TheLastVersionCanBeTheBest) {
  options_.job.mutable_checkpoint()->set_best(
      EvaluationMetric::EVALUATION_LOSS);
  options_.job.mutable_stop_when()->set_target(3);
  Begin(/*checkpoint_every=*/100);
  Steps(0, 2);
  Evaluate(2, 2.0);
  // The checkpoint of version 8 gives way: first the best, then the last one.
  ASSERT_THAT(committer_.folders, ElementsAre(8));
  coordinator_->OnCheckpointFolder("c/8");
  ASSERT_THAT(committer_.folders, ElementsAre(8, 2));
  coordinator_->OnCheckpointFolder("c/2");
  for (const int shard : {0, 1}) Report(shard, 2, SnapshotReport::WRITTEN);
  ASSERT_THAT(committer_.bests, SizeIs(1));
  EXPECT_EQ(Finished(), std::nullopt);
  coordinator_->OnCheckpointCommitted(absl::OkStatus());
  ASSERT_THAT(committer_.folders, ElementsAre(8, 2, 2));
  coordinator_->OnCheckpointFolder("c/2b");
  for (const int shard : {0, 1}) Report(shard, 2, SnapshotReport::WRITTEN);
  ASSERT_THAT(committer_.commits, SizeIs(1));
  coordinator_->OnCheckpointCommitted(absl::OkStatus());
  EXPECT_EQ(Finished(), 2);
  EXPECT_EQ(Evaluated(), 0);
}

}  // namespace
}  // namespace tributary
