// Modes in which gradients become weights before all workers are in step.
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "common/update/update_engine.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/update/update_engine_fixture.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

TEST_F(UpdateEngineTest, StaleSynchronousAppliesEarlyStepsInTheirOrder) {
  Make(/*clip_norm=*/0, /*steps=*/3, "stale_synchronous { staleness: 1 }");
  // Step 1 first; chunk 2 gets step 0 last.
  ContributeAll(1, 2);
  EXPECT_THAT(Contribute(2, 0, 1, 1),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       testing::HasSubstr("step 2 comes too early")));
  for (int chunk = 0; chunk < 3; ++chunk) {
    EXPECT_TRUE(Contribute(0, chunk, /*node=*/1, 4).ok());
  }
  recorder_.Await(2, 3);
  ContributeAll(2, 0);
  recorder_.Await(3, 3);
  for (int chunk = 0; chunk < 3; ++chunk) {
    EXPECT_EQ(recorder_.versions()[chunk], (std::vector<int64_t>{0, 1, 2, 3}));
  }
  // Gradients 4 / 2, 8 / 8, 0: velocities 2, 2, 1; the rate is 0.5.
  EXPECT_EQ(recorder_.At(0, 0), 1 - 0.5f * (2 + 2 + 1));
  ASSERT_EQ(sums().size(), 3u);
  for (int64_t step = 0; step < 3; ++step) EXPECT_EQ(sums()[step].step(), step);
}

TEST_F(UpdateEngineTest, AsynchronousAppliesOnArrivalAndAnswers) {
  Make(/*clip_norm=*/0, /*steps=*/3, "asynchronous { max_staleness: 1 }");
  for (const int64_t step : {2, 0}) {
    for (int chunk = 0; chunk < 3; ++chunk) {
      EXPECT_TRUE(ContributeWhole(step, chunk, /*base_version=*/0, 2).ok());
    }
  }
  recorder_.Await(2, 3);
  // Twice, and too old.
  EXPECT_TRUE(ContributeWhole(2, 0, 0, 2).ok());
  EXPECT_TRUE(ContributeWhole(1, 0, 0, 2).ok());
  EXPECT_TRUE(ContributeWhole(1, 0, 1, 2).ok());
  EXPECT_TRUE(ContributeWhole(1, 0, 2, 2).ok());
  std::vector<std::string> of_chunk_0;
  for (const std::string& outcome : recorder_.outcomes()) {
    if (absl::StrContains(outcome, "chunk 0")) of_chunk_0.push_back(outcome);
  }
  EXPECT_EQ(of_chunk_0,
            (std::vector<std::string>{"step 2 chunk 0 age 0 taken at 1",
                                      "step 0 chunk 0 age 1 taken at 2",
                                      "step 2 chunk 0 age 2 taken at 2",
                                      "step 1 chunk 0 age 2 refused at 2",
                                      "step 1 chunk 0 age 1 taken at 3",
                                      "step 1 chunk 0 age 1 taken at 3"}));
  EXPECT_EQ(recorder_.At(0, 0), 1 - 0.5f * (1 + 1.5f + 1.75f));
  // Only steps that every chunk has had are reported.
  ASSERT_EQ(sums().size(), 2u);
  EXPECT_EQ(sums()[0].step(), 2);
  EXPECT_EQ(sums()[0].loss_sum(), 1.5);
  EXPECT_EQ(sums()[1].step(), 0);
  engine_->Unsubscribe(&recorder_);
  // Nobody is left to be told.
  EXPECT_TRUE(ContributeWhole(1, 1, 2, 2).ok());
}

TEST_F(UpdateEngineTest, ANewStreamInTheMemoryOfAnOldOneIsAnother) {
  Make(/*clip_norm=*/0, /*steps=*/4, "asynchronous {}");
  std::optional<Recorder> place;
  place.emplace();
  engine_->Subscribe(&*place, MemoryPlace::kHost);
  NodeSum sum = Sum(/*step=*/0, /*chunk=*/1, /*node=*/1, /*value=*/2);
  sum.sender = place->id();
  engine_->Unsubscribe(&*place);
  place.emplace();
  engine_->Subscribe(&*place, MemoryPlace::kHost);
  EXPECT_TRUE(engine_->AddContribution(1, std::move(sum)).ok());
  EXPECT_TRUE(place->outcomes().empty());
  engine_->Unsubscribe(&*place);
}

TEST_F(UpdateEngineTest, AsynchronousClipsByTheNormThatCame) {
  Make(/*clip_norm=*/3, /*steps=*/1, "asynchronous {}");
  for (int chunk = 0; chunk < 3; ++chunk) {
    EXPECT_TRUE(ContributeWhole(0, chunk, 0, 4, /*norm=*/6).ok());
  }
  recorder_.Await(1, 3);
  // 4 / 2, halved by clipping; PyTorch's rule adds 1e-6 to the norm.
  EXPECT_NEAR(recorder_.At(0, 0), 1 - 0.5f * 1, 1e-6);
}

TEST_F(UpdateEngineTest, AsynchronousDividesTheRateByStaleness) {
  Make(/*clip_norm=*/0, /*steps=*/4,
       "asynchronous { learning_rate_by_staleness: true }");
  for (const int64_t step : {0, 1, 2}) {
    for (int chunk = 0; chunk < 3; ++chunk) {
      EXPECT_TRUE(ContributeWhole(step, chunk, 0, 2).ok());
    }
  }
  recorder_.Await(3, 3);
  // Staleness 0, 1 and 2: only the last one's rate is halved.
  EXPECT_EQ(recorder_.At(0, 0), 1 - 0.5f * (1 + 1.5f + 1.75f / 2));
}

}  // namespace
}  // namespace tributary
