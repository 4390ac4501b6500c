// The run mode of an all-reduce, and the group of workers that it keeps.
#include "server/run_mode/all_reduce_steps.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
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
  EXPECT_FALSE(mode_->servers_await_norms());
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
