#include "server/run_mode/leased_steps.h"

#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/run_mode/run_mode_fixture.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class LeasedStepsTest : public RunModeTest {
 protected:
  LeasedStepsTest() {
    job_.mutable_exchange()
        ->mutable_parameter_server()
        ->mutable_consistency()
        ->mutable_asynchronous();
    Make();
    first_ = AddWorker();
    second_ = AddWorker();
  }

  absl::Status Request(int64_t worker) {
    return mode_->RequestStep(*membership_.Find(worker));
  }

  // Steps that the worker has been told to compute.
  std::vector<int64_t> StepsOf(int64_t worker) {
    std::vector<int64_t> steps;
    for (const CoordinatorOrder& order : links_[worker].orders) {
      if (order.has_claimed()) steps.push_back(order.claimed().step());
    }
    return steps;
  }

  int64_t first_ = 0;
  int64_t second_ = 0;
};

TEST_F(LeasedStepsTest, LeasesStepsBelowTheLimitFromTheFirstVersionOn) {
  mode_->Begin(/*version=*/10, Ready());
  EXPECT_EQ(mode_->earliest_checkpoint(), 10);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Request(first_).ok());
  EXPECT_THAT(StepsOf(first_), IsEmpty());
  mode_->GrantSteps(/*limit=*/12);
  EXPECT_THAT(StepsOf(first_), ElementsAre(10, 11));
  // Not at a version that leased steps go beyond.
  EXPECT_EQ(mode_->earliest_checkpoint(), 12);
}

// Workers compute all micro-batches of the steps that they lease.
TEST_F(LeasedStepsTest, AssignsPiecesButNoMicroBatches) {
  const auto orders = mode_->Assign(/*pieces=*/4, absl::InfinitePast());
  int64_t pieces = 0;
  for (const int64_t worker : {first_, second_}) {
    ASSERT_EQ(orders.count(worker), 1);
    const Deal& deal = orders.at(worker)[0].deal();
    EXPECT_GT(deal.generation(), 0);
    EXPECT_EQ(deal.leaf_begin(), 0);
    EXPECT_EQ(deal.leaf_end(), 0);
    pieces += deal.piece_end() - deal.piece_begin();
  }
  EXPECT_EQ(pieces, 4);
}

TEST_F(LeasedStepsTest, LeasesTheStepsOfAWorkerThatIsOutToOthers) {
  mode_->Begin(0, Ready());
  ASSERT_TRUE(Request(first_).ok());
  ASSERT_TRUE(Request(first_).ok());
  mode_->GrantSteps(10);
  mode_->OnStepComplete(0);
  membership_.Remove(first_);
  mode_->RemoveWorker(first_);
  EXPECT_TRUE(mode_->OnWorkerLost(first_, "worker 0").ok());
  ASSERT_TRUE(Request(second_).ok());
  ASSERT_TRUE(Request(second_).ok());
  mode_->GrantSteps(10);
  EXPECT_THAT(StepsOf(second_), ElementsAre(1, 2));
}

TEST_F(LeasedStepsTest, RefusesWorkersThatAskTooEarlyOrTooOften) {
  mode_->Begin(0, Ready());
  membership_.Find(first_)->synced = false;
  EXPECT_THAT(Request(first_), StatusIs(absl::StatusCode::kFailedPrecondition));
  absl::Status status;
  for (int i = 0; i < 1000 && status.ok(); ++i) status = Request(second_);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted));
}

}  // namespace
}  // namespace tributary
