// The run mode of an all-reduce, and the group of workers that it keeps.
#include "server/run_mode/all_reduce_steps.h"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/run_mode/all_reduce_group.h"
#include "tests/server/run_mode/run_mode_fixture.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class AllReduceStepsTest : public RunModeTest {
 protected:
  AllReduceStepsTest() {
    job_.mutable_exchange()->mutable_all_reduce();
    job_.set_clip_norm(1);
    Make();
    first_ = AddWorker();
    second_ = AddWorker();
    mode_->Begin(/*version=*/0, Ready());
  }

  std::optional<SnapshotReport> SaySaved(int64_t worker, int64_t version,
                                         bool passed = false) {
    Saved saved;
    saved.set_version(version);
    saved.set_passed(passed);
    return mode_->OnSaved(worker, saved);
  }

  int64_t first_ = 0;
  int64_t second_ = 0;
};

TEST_F(AllReduceStepsTest, KeepsItsFirstMembers) {
  const auto orders = Assign();
  ASSERT_THAT(orders, SizeIs(2));
  ASSERT_THAT(orders.at(second_), SizeIs(2));
  EXPECT_TRUE(orders.at(second_)[0].has_deal());
  EXPECT_EQ(orders.at(second_)[1].group().member(), 1);
  EXPECT_THAT(orders.at(second_)[1].group().leaf_begin(), ElementsAre(0, 2));
  const int64_t late = AddWorker();
  EXPECT_THAT(Assign(), IsEmpty());
  EXPECT_FALSE(mode_->AssignmentIsSlow(absl::InfiniteFuture()));
  EXPECT_TRUE(mode_->OnWorkerLost(late, "worker 2").ok());
  EXPECT_THAT(mode_->OnWorkerLost(second_, "worker 1"),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("lost worker 1; an all-reduce needs all")));
}

TEST_F(AllReduceStepsTest, TheFirstMemberReportsSums) {
  EXPECT_THAT(
      mode_->CheckReportsSums(first_),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("all-reduce")));
  Assign();
  EXPECT_TRUE(mode_->CheckReportsSums(first_).ok());
  EXPECT_THAT(
      mode_->CheckReportsSums(second_),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("all-reduce")));
  EXPECT_FALSE(ServersAwaitNorms(job_));
}

TEST_F(AllReduceStepsTest, SnapshotsWaitForTheStateOfAllMembers) {
  Assign();
  mode_->OrderSnapshot(Snapshot(8), /*last=*/false);
  EXPECT_EQ(links_[first_].orders.back().save().version(), 8);
  EXPECT_FALSE(SaySaved(first_, 8).has_value());
  EXPECT_FALSE(mode_->HasState(8));
  EXPECT_FALSE(SaySaved(second_, 8).has_value());
  EXPECT_TRUE(mode_->HasState(8));
  mode_->OrderWaitingSnapshot(/*completed=*/7);
  EXPECT_THAT(Snapshots(), IsEmpty());
  mode_->OrderWaitingSnapshot(/*completed=*/8);
  EXPECT_THAT(Snapshots(), ElementsAre(8));
}

TEST_F(AllReduceStepsTest, GivesAVersionUpThatAMemberHasPassed) {
  Assign();
  mode_->OrderSnapshot(Snapshot(8), /*last=*/false);
  const auto report = SaySaved(second_, 8, /*passed=*/true);
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->version(), 8);
  EXPECT_EQ(report->outcome(), SnapshotReport::PASSED);
}

TEST_F(AllReduceStepsTest, TheLastVersionIsNotAskedFor) {
  Assign();
  mode_->OrderSnapshot(Snapshot(9), /*last=*/true);
  EXPECT_THAT(links_[first_].orders, IsEmpty());
}

TEST_F(AllReduceStepsTest, BeginsAgainAfterACheckpointWithWorkersThatWait) {
  EXPECT_TRUE(mode_->OnCheckpoint().ok());
  Assign();
  EXPECT_TRUE(mode_->OnCheckpoint().ok());
  for (int i = 0; i < 3; ++i) AddWorker();
  // There are 4 micro-batches.
  EXPECT_THAT(mode_->OnCheckpoint(),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("restarts with 4 workers instead of 2")));
}

// A pipeline of two stages between the members of an all-reduce, for a job of
// four micro-batches.
class StagedAllReduceStepsTest : public RunModeTest {
 protected:
  static constexpr int kStages = 2;

  StagedAllReduceStepsTest() {
    job_.mutable_exchange()->mutable_all_reduce();
    job_.mutable_parallel()->mutable_pipeline()->set_stages(kStages);
    Make();
    EXPECT_TRUE(mode_->OnReady(kAnyWorker, ReadyFor(kStages)).ok());
    mode_->Begin(/*version=*/0, ReadyFor(kStages));
  }

  // Adds workers that have received Open.
  void AddOpened(int count) {
    for (int i = 0; i < count; ++i) {
      workers_.push_back(AddWorker());
      membership_.Find(workers_.back())->synced = false;
    }
  }
  void OrderStages() {
    if (!std::exchange(chosen_, true)) {
      EXPECT_TRUE(mode_->ChooseStages().ok());
    }
    for (const auto& [worker, list] : mode_->OrderStages(absl::UnixEpoch())) {
      for (const CoordinatorOrder& order : list) {
        stages_[worker] = order.stage();
      }
    }
  }
  // Reports that the worker has the weights of its stages.
  void Sync(int64_t worker) {
    Synced synced;
    synced.set_stage_generation(stages_[worker].generation());
    Member* const member = membership_.Find(worker);
    member->synced = mode_->OnSynced(*member, synced);
    EXPECT_TRUE(member->synced);
  }

  std::vector<int64_t> workers_;
  std::map<int64_t, Stage> stages_;
  bool chosen_ = false;
};

TEST_F(StagedAllReduceStepsTest, GroupsTheWorkersOfAllReplicas) {
  AddOpened(4);
  OrderStages();
  for (const int64_t worker : workers_) {
    EXPECT_FALSE(stages_[worker].initialize());
    Sync(worker);
  }
  const auto orders = Assign();
  ASSERT_THAT(orders, SizeIs(4));
  std::set<int> members;
  for (const auto& [worker, list] : orders) {
    ASSERT_THAT(list, SizeIs(2));
    const Deal& deal = list[0].deal();
    const Group& group = list[1].group();
    EXPECT_THAT(group.leaf_begin(), ElementsAre(0, 0, 2, 2));
    EXPECT_THAT(group.stage_begin(), ElementsAre(0, 1, 0, 1));
    members.insert(group.member());
    EXPECT_EQ(deal.leaf_begin(), group.leaf_begin(group.member()));
    EXPECT_EQ(deal.stage_begin(), group.stage_begin(group.member()));
    EXPECT_EQ(mode_->CheckReportsSums(worker).ok(), group.member() == 0);
    EXPECT_THAT(mode_->OnWorkerLost(worker, "worker"),
                StatusIs(absl::StatusCode::kUnavailable));
  }
  EXPECT_THAT(members, SizeIs(4));
  EXPECT_THAT(Assign(), IsEmpty());
}

// Six segments in two stages. The first worker is half as fast as the second.
TEST_F(StagedAllReduceStepsTest, BalancesStagesForItsWorkers) {
  Make();
  const Ready job = ReadyFor(6);
  ASSERT_TRUE(mode_->OnReady(kAnyWorker, job).ok());
  mode_->Begin(/*version=*/0, job);
  for (const double seconds : {2.0, 1.0}) {
    AddOpened(1);
    Ready ready = job;
    for (StageSegment& segment : *ready.mutable_segment()) {
      segment.set_forward_seconds(seconds);
    }
    ASSERT_TRUE(mode_->OnReady(workers_.back(), ready).ok());
  }
  OrderStages();
  for (const int64_t worker : workers_) {
    ASSERT_EQ(stages_[worker].stage_size(), 2);
    EXPECT_EQ(stages_[worker].stage(0).layer_end(), 2);
    Sync(worker);
  }
  EXPECT_EQ(stages_[workers_[0]].stage_begin(), 0);
  EXPECT_THAT(Assign(), SizeIs(2));
}

TEST_F(StagedAllReduceStepsTest, WaitsForACompleteReplica) {
  AddOpened(2);
  OrderStages();
  Sync(workers_[0]);
  for (const auto& [worker, list] : Assign()) EXPECT_THAT(list, IsEmpty());
  EXPECT_EQ(mode_->Awaited(/*step=*/0), membership_.Find(workers_[1]));
  EXPECT_TRUE(mode_->OnWorkerLost(workers_[0], "worker 0").ok());
  Sync(workers_[1]);
  EXPECT_THAT(Assign(), SizeIs(2));
}

TEST_F(StagedAllReduceStepsTest, AWorkerThatJoinsLaterWaits) {
  AddOpened(2);
  OrderStages();
  for (const int64_t worker : workers_) Sync(worker);
  Assign();
  AddOpened(1);
  EXPECT_THAT(Assign(), IsEmpty());
  EXPECT_THAT(mode_->OrderStages(absl::UnixEpoch()), IsEmpty());
  // It could be a spare only.
  EXPECT_TRUE(mode_->OnCheckpoint().ok());
  AddOpened(1);
  EXPECT_THAT(mode_->OnCheckpoint(),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("restarts with 4 workers instead of 2")));
}

TEST(AllReduceGroup, TakesNcclWhereEverybodyHasAGpuOfItsOwn) {
  const auto nccl = [](AllReduceSpec::Backend wanted,
                       const std::vector<std::string>& gpus) {
    Membership membership(/*micro_batches=*/4, absl::Seconds(10));
    std::map<int64_t, Deal> assignments;
    for (int i = 0; i < 3; ++i) {
      ::tributary::Join join;
      join.set_rank(i);
      const int64_t worker =
          membership.Add(join, absl::UnixEpoch()).incarnation;
      membership.Find(worker)->nccl_device = gpus[i];
      Deal& assignment = assignments[worker];
      assignment.set_leaf_begin(2 * i);
      assignment.set_leaf_end(2 * i +
                              (i < 2 ? 2 : 0));  // The third is a spare.
    }
    AllReduceGroup group(&membership);
    group.Begin(assignments, wanted);
    EXPECT_EQ(group.size(), 2);
    return group.OrderTo(assignments.begin()->first).group().nccl();
  };
  EXPECT_TRUE(nccl(AllReduceSpec::AUTO, {"a 1", "b 1", ""}));
  // On one GPU, or on none.
  EXPECT_FALSE(nccl(AllReduceSpec::AUTO, {"a 1", "a 1", ""}));
  EXPECT_FALSE(nccl(AllReduceSpec::AUTO, {"a 1", "", ""}));
  EXPECT_FALSE(nccl(AllReduceSpec::AUTO, {"", "", ""}));
  EXPECT_FALSE(nccl(AllReduceSpec::GLOO, {"a 1", "b 1", ""}));
  EXPECT_TRUE(nccl(AllReduceSpec::NCCL, {"a 1", "", ""}));
}

}  // namespace
}  // namespace tributary
