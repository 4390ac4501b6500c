// What RunMode does by default, which is all that ordered steps need; and which
// mode a job gets.
#include "server/run_mode/run_mode.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/run_mode/run_mode_fixture.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class OrderedStepsTest : public RunModeTest {};

TEST_F(OrderedStepsTest, GivesALostWorkersMicroBatchesToTheOthers) {
  Make();
  const int64_t first = AddWorker();
  const int64_t second = AddWorker();
  EXPECT_THAT(Assign(), SizeIs(2));
  membership_.Remove(second);
  EXPECT_TRUE(mode_->OnWorkerLost(second, "worker 1").ok());
  const auto orders = Assign();
  ASSERT_THAT(orders, SizeIs(1));
  ASSERT_THAT(orders.at(first), SizeIs(1));
  EXPECT_EQ(orders.at(first)[0].deal().leaf_begin(), 0);
  EXPECT_EQ(orders.at(first)[0].deal().leaf_end(), 4);
}

TEST_F(OrderedStepsTest, RefusesWhatBelongsToOtherModes) {
  Make();
  const int64_t worker = AddWorker();
  EXPECT_THAT(mode_->RequestStep(*membership_.Find(worker)),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(
      mode_->CheckReportsSums(worker),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("all-reduce")));
  EXPECT_THAT(
      mode_->Publish(worker, Publication()),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("all-reduce")));
}

TEST_F(OrderedStepsTest, SnapshotsAreTheServersOwn) {
  Make();
  const int64_t worker = AddWorker();
  EXPECT_FALSE(mode_->workers_load_state());
  EXPECT_TRUE(mode_->HasState(7));
  EXPECT_EQ(mode_->earliest_checkpoint(), 0);
  mode_->OrderSnapshot(Snapshot(7), /*last=*/false);
  EXPECT_THAT(Snapshots(), ElementsAre(7));
  EXPECT_FALSE(mode_->OnSaved(worker, Saved()).has_value());
  mode_->OrderWaitingSnapshot(/*completed=*/7);
  EXPECT_THAT(Snapshots(), ElementsAre(7));
  EXPECT_TRUE(mode_->OnCheckpoint().ok());
}

TEST_F(OrderedStepsTest, ServersAwaitNormsWhereGradientsAreClipped) {
  Make();
  EXPECT_FALSE(ServersAwaitNorms(job_));
  job_.set_clip_norm(1);
  EXPECT_TRUE(ServersAwaitNorms(job_));
}

// Steps of which every worker computes a part need no lease.
TEST_F(OrderedStepsTest, IsTheModeOfAllPoliciesButTheAsynchronousOne) {
  ConsistencySpec* const consistency = job_.mutable_exchange()
                                           ->mutable_parameter_server()
                                           ->mutable_consistency();
  const auto request = [this] {
    Make();
    return mode_->RequestStep(*membership_.Find(AddWorker()));
  };
  const auto is_refused = StatusIs(absl::StatusCode::kFailedPrecondition);
  consistency->mutable_synchronous();
  EXPECT_THAT(request(), is_refused);
  consistency->mutable_stale_synchronous();
  EXPECT_THAT(request(), is_refused);
  consistency->mutable_local_steps();
  EXPECT_THAT(request(), is_refused);
  consistency->mutable_asynchronous();
  EXPECT_EQ(request(), absl::OkStatus());
  job_.mutable_exchange()->mutable_all_reduce();
  EXPECT_THAT(request(), is_refused);
  EXPECT_TRUE(mode_->workers_load_state());
}

}  // namespace
}  // namespace tributary
