// How the coordinator answers requests for step leases (asynchronous mode).
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/coordinator/coordinator_fixture.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

// Which steps a worker has been told to compute.
std::vector<int64_t> GrantedSteps(const FakeWorker& worker) {
  std::vector<int64_t> steps;
  for (const CoordinatorOrder& order : worker.orders) {
    if (order.has_claimed()) steps.push_back(order.claimed().step());
  }
  return steps;
}

class AsynchronousCoordinatorTest : public CoordinatorTest {
 protected:
  AsynchronousCoordinatorTest() {
    options_.job.mutable_exchange()
        ->mutable_parameter_server()
        ->mutable_consistency()
        ->mutable_asynchronous();
  }

  absl::Status RequestStep(FakeWorker* worker) {
    WorkerReport report;
    report.mutable_claim();
    return Say(worker, report);
  }

  // Every server has the step.
  void Complete(int64_t step) { EXPECT_TRUE(SaySums(0, step, {1, 1, 1}).ok()); }
};

TEST_F(AsynchronousCoordinatorTest, EndsWhenAllStepsAreApplied) {
  Make(/*servers=*/1, /*expected_workers=*/2, /*steps=*/3);
  FakeWorker slow, fast;
  for (FakeWorker* worker : {&slow, &fast}) {
    ASSERT_TRUE(Join(worker).ok());
    ASSERT_TRUE(SayReady(worker).ok());
  }
  SayConfigured();
  SaySynced(&slow);
  // Nobody computes before the start.
  EXPECT_TRUE(RequestStep(&slow).ok());
  EXPECT_EQ(GrantedSteps(slow), (std::vector<int64_t>{}));
  SaySynced(&fast);
  EXPECT_EQ(GrantedSteps(slow), (std::vector<int64_t>{0}));
  EXPECT_TRUE(RequestStep(&fast).ok());
  EXPECT_TRUE(RequestStep(&fast).ok());
  EXPECT_TRUE(RequestStep(&fast).ok());
  EXPECT_EQ(GrantedSteps(fast), (std::vector<int64_t>{1, 2}));
  Complete(2);
  Complete(1);
  EXPECT_EQ(coordinator_->GetStatus().step(), 2);
  EXPECT_FALSE(fast.Got(CoordinatorOrder::kFinished));
  Complete(0);
  EXPECT_TRUE(fast.Got(CoordinatorOrder::kFinished));
  EXPECT_TRUE(slow.Got(CoordinatorOrder::kFinished));
  // The same step a second time.
  EXPECT_THAT(SaySums(0, 1, {1, 1, 1}),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(AsynchronousCoordinatorTest, GivesTheStepsOfASilentWorkerToOthers) {
  Make(/*servers=*/1, /*expected_workers=*/2, /*steps=*/10);
  FakeWorker first, second;
  EnterAll({&first, &second});
  EXPECT_TRUE(RequestStep(&first).ok());
  EXPECT_TRUE(RequestStep(&first).ok());
  EXPECT_TRUE(RequestStep(&second).ok());
  EXPECT_EQ(GrantedSteps(second), (std::vector<int64_t>{2}));
  // The first one's lease ends; its step 1 had arrived all the same.
  Complete(1);
  Pass(options_.lease + absl::Seconds(1), {&second});
  EXPECT_TRUE(RequestStep(&second).ok());
  EXPECT_TRUE(RequestStep(&second).ok());
  EXPECT_EQ(GrantedSteps(second), (std::vector<int64_t>{2, 0, 3}));
}

TEST_F(AsynchronousCoordinatorTest, GrantsNoStepLeasesWhereAnEvaluationIsDue) {
  options_.job.mutable_evaluation()->set_every_steps(2);
  Make(/*servers=*/1, /*expected_workers=*/1, /*steps=*/5, /*pieces=*/1);
  FakeWorker worker;
  Enter(&worker);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(RequestStep(&worker).ok());
  EXPECT_EQ(GrantedSteps(worker), (std::vector<int64_t>{0, 1}));
  Complete(1);
  Complete(0);
  EXPECT_EQ(GrantedSteps(worker), (std::vector<int64_t>{0, 1}));
  WorkerReport report;
  report.mutable_evaluation()->set_version(2);
  report.mutable_evaluation()->set_weight(1);
  EXPECT_TRUE(Say(&worker, report).ok());
  EXPECT_EQ(GrantedSteps(worker), (std::vector<int64_t>{0, 1, 2}));
}

TEST_F(CoordinatorTest, RefusesStepLeasesInOtherModes) {
  Make(/*servers=*/1, /*expected_workers=*/1);
  FakeWorker worker;
  Enter(&worker);
  WorkerReport report;
  report.mutable_claim();
  EXPECT_EQ(Say(&worker, report).code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace tributary
