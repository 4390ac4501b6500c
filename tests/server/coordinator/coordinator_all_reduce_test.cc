// The coordinator of an all-reduce: who is in the group, what its members tell
// each other, whose state goes into a checkpoint.
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/rendezvous.pb.h"
#include "server/coordinator/coordinator.h"
#include "tests/server/coordinator/coordinator_fixture.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// One server, 4 micro-batches, two workers, a checkpoint every 8 steps.
class CoordinatorAllReduceTest : public CoordinatorTest {
 protected:
  CoordinatorAllReduceTest() {
    options_.job.mutable_exchange()->mutable_all_reduce();
    options_.job.mutable_checkpoint()->set_every_steps(8);
    options_.checkpoints = &committer_;
  }

  void Begin(int64_t steps) {
    Make(/*servers=*/1, /*expected_workers=*/2, steps, /*pieces=*/0,
         /*clip_norm=*/1);
    EnterAll({&first_, &second_});
  }

  const CoordinatorOrder* Last(const FakeWorker& worker,
                               CoordinatorOrder::OrderCase kind) const {
    for (auto order = worker.orders.rbegin(); order != worker.orders.rend();
         ++order) {
      if (order->order_case() == kind) return &*order;
    }
    return nullptr;
  }

  absl::Status SayStep(FakeWorker* worker, int64_t step) {
    WorkerReport report;
    report.mutable_sums()->set_step(step);
    for (int chunk = 0; chunk < 3; ++chunk) {
      report.mutable_sums()->add_sum_of_squares(1);
    }
    report.mutable_sums()->set_weight(8);
    return Say(worker, report);
  }

  void SaySaved(FakeWorker* worker, int64_t version, bool passed = false) {
    WorkerReport report;
    report.mutable_saved()->set_version(version);
    report.mutable_saved()->set_passed(passed);
    ASSERT_TRUE(Say(worker, report).ok());
  }

  // Of the server's orders, those for snapshots: their versions.
  std::vector<int64_t> Snapshots() const {
    std::vector<int64_t> versions;
    for (const ServerOrder& order : servers_[0].orders) {
      if (order.has_snapshot()) versions.push_back(order.snapshot().version());
    }
    return versions;
  }

  void SayWritten(int64_t version) {
    for (const auto outcome :
         {SnapshotReport::TAKEN, SnapshotReport::WRITTEN}) {
      ServerReport report;
      report.mutable_snapshot()->set_version(version);
      report.mutable_snapshot()->set_outcome(outcome);
      ASSERT_TRUE(coordinator_->OnServerReport(0, report).ok());
    }
  }

  Coordinator::Ending Ending() {
    return coordinator_->AwaitEnding(absl::ZeroDuration());
  }

  FakeCommitter committer_;
  FakeWorker first_, second_;
};

TEST_F(CoordinatorAllReduceTest, FormsAGroupWhenAllHaveCome) {
  Begin(/*steps=*/100);
  for (const FakeWorker* worker : {&first_, &second_}) {
    const CoordinatorOrder* const order =
        Last(*worker, CoordinatorOrder::kGroup);
    ASSERT_NE(order, nullptr);
    EXPECT_EQ(order->group().member(), worker == &first_ ? 0 : 1);
    EXPECT_THAT(order->group().leaf_begin(), ElementsAre(0, 2));
    // Everybody makes the first weights.
    EXPECT_FALSE(Last(*worker, CoordinatorOrder::kOpen)->open().initialize());
  }
  // Who comes later waits, and gets nothing to do.
  FakeWorker late;
  Enter(&late);
  EXPECT_TRUE(late.Got(CoordinatorOrder::kOpen));
  EXPECT_FALSE(late.Got(CoordinatorOrder::kDeal));
  EXPECT_FALSE(late.Got(CoordinatorOrder::kGroup));
  coordinator_->OnWorkerDisconnected(late.incarnation);
  EXPECT_EQ(Ending(), Coordinator::Ending::kNone);
}

TEST_F(CoordinatorAllReduceTest, GoesBackWhenAMemberIsGone) {
  Begin(100);
  coordinator_->OnWorkerDisconnected(second_.incarnation);
  EXPECT_EQ(Ending(), Coordinator::Ending::kRolledBack);
  EXPECT_THAT(
      std::string(first_.closed.message()),
      HasSubstr("; an all-reduce needs all of its members; join again"));
}

TEST_F(CoordinatorAllReduceTest, GoesBackWhenAMembersRankIsTakenOver) {
  Begin(100);
  FakeWorker newer;
  ASSERT_TRUE(Join(&newer, /*rank=*/1).ok());
  EXPECT_EQ(Ending(), Coordinator::Ending::kRolledBack);
  for (const FakeWorker* worker : {&first_, &newer}) {
    EXPECT_EQ(worker->closed.code(), absl::StatusCode::kAborted);
  }
  EXPECT_THAT(std::string(second_.closed.message()),
              HasSubstr("rank 1 was taken over"));
  // It is known, so that its connection's end is, too.
  coordinator_->OnWorkerDisconnected(newer.incarnation);
}

TEST_F(CoordinatorAllReduceTest, PassesOnWhatMembersPublish) {
  Begin(100);
  FakeWorker late;
  Enter(&late);
  WorkerReport report;
  report.mutable_publication()->set_name("1");
  report.mutable_publication()->add_part("somewhere");
  ASSERT_TRUE(Say(&second_, report).ok());
  for (const FakeWorker* worker : {&first_, &second_}) {
    const CoordinatorOrder* const order =
        Last(*worker, CoordinatorOrder::kPublication);
    ASSERT_NE(order, nullptr);
    EXPECT_EQ(order->publication().name(), "1");
    EXPECT_THAT(order->publication().part(), ElementsAre("somewhere"));
  }
  EXPECT_FALSE(late.Got(CoordinatorOrder::kPublication));
  EXPECT_TRUE(absl::IsFailedPrecondition(Say(&late, report)));
}

TEST_F(CoordinatorAllReduceTest, TakesStepsFromTheFirstMemberOnly) {
  Begin(100);
  ASSERT_TRUE(SayStep(&first_, 0).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(SayStep(&second_, 1)));
  EXPECT_EQ(coordinator_->GetStatus().step(), 1);
  // Members know the norm themselves.
  for (const ServerOrder& order : servers_[0].orders) {
    EXPECT_FALSE(order.has_norm());
  }
}

TEST_F(CoordinatorAllReduceTest, ACheckpointWaitsForTheStateOfAll) {
  Begin(100);
  coordinator_->OnCheckpointFolder("folder");
  const CoordinatorOrder* const save = Last(second_, CoordinatorOrder::kSave);
  ASSERT_NE(save, nullptr);
  EXPECT_EQ(save->save().version(), 8);
  for (int64_t step = 0; step < 7; ++step) {
    ASSERT_TRUE(SayStep(&first_, step).ok());
  }
  SaySaved(&first_, 8);
  SaySaved(&second_, 8);
  // How far the job is then is not known yet.
  EXPECT_THAT(Snapshots(), ElementsAre());
  ASSERT_TRUE(SayStep(&first_, 7).ok());
  EXPECT_THAT(Snapshots(), ElementsAre(8));
  SayWritten(8);
  ASSERT_EQ(committer_.commits.size(), 1u);
  EXPECT_EQ(committer_.commits[0].second.step(), 8);
}

TEST_F(CoordinatorAllReduceTest, AVersionThatAMemberHasPassedIsGivenUp) {
  Begin(100);
  coordinator_->OnCheckpointFolder("folder");
  SaySaved(&second_, 8, /*passed=*/true);
  SaySaved(&first_, 8);
  EXPECT_THAT(Snapshots(), ElementsAre());
  for (int64_t step = 0; step < 10; ++step) {
    ASSERT_TRUE(SayStep(&first_, step).ok());
  }
  EXPECT_THAT(Snapshots(), ElementsAre());
  EXPECT_GT(committer_.folders.size(), 1u);  // Of a later one.
}

TEST_F(CoordinatorAllReduceTest, TakesThoseInWhoWaitAfterACheckpoint) {
  Begin(100);
  FakeWorker late;
  Enter(&late);
  coordinator_->OnCheckpointFolder("folder");
  for (int64_t step = 0; step < 8; ++step) {
    ASSERT_TRUE(SayStep(&first_, step).ok());
  }
  SaySaved(&first_, 8);
  SaySaved(&second_, 8);
  SayWritten(8);
  EXPECT_EQ(Ending(), Coordinator::Ending::kNone);
  coordinator_->OnCheckpointCommitted(absl::OkStatus());
  EXPECT_EQ(Ending(), Coordinator::Ending::kRolledBack);
  EXPECT_THAT(std::string(coordinator_->status().message()),
              HasSubstr("restarts with 3 workers instead of 2"));
}

TEST_F(CoordinatorAllReduceTest, EndsWhenTheModelIsThere) {
  Begin(/*steps=*/2);
  coordinator_->OnCheckpointFolder("folder");
  // The last version is brought unasked.
  EXPECT_FALSE(first_.Got(CoordinatorOrder::kSave));
  ASSERT_TRUE(SayStep(&first_, 0).ok());
  ASSERT_TRUE(SayStep(&first_, 1).ok());
  SaySaved(&first_, 2);
  EXPECT_THAT(Snapshots(), ElementsAre());
  SaySaved(&second_, 2);
  EXPECT_THAT(Snapshots(), ElementsAre(2));
  SayWritten(2);
  EXPECT_FALSE(first_.Got(CoordinatorOrder::kFinished));
  coordinator_->OnCheckpointCommitted(absl::OkStatus());
  EXPECT_TRUE(first_.Got(CoordinatorOrder::kFinished));
  EXPECT_TRUE(second_.Got(CoordinatorOrder::kFinished));
}

TEST_F(CoordinatorAllReduceTest, WithoutCheckpointsTheModelIsWaitedFor) {
  options_.job.mutable_checkpoint()->set_every_steps(0);
  options_.checkpoints = nullptr;
  Begin(/*steps=*/1);
  ASSERT_TRUE(SayStep(&first_, 0).ok());
  SaySaved(&first_, 1);
  EXPECT_FALSE(first_.Got(CoordinatorOrder::kFinished));
  SaySaved(&second_, 1);
  EXPECT_TRUE(first_.Got(CoordinatorOrder::kFinished));
}

}  // namespace
}  // namespace tributary
