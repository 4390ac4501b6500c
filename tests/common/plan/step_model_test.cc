// Limits that can be worked out by hand.
#include "common/plan/step_model.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"

namespace tributary {
namespace {

constexpr int kChunks = 1000;
// The pipeline fills and drains by a few chunks.
constexpr double kChunkTolerance = 4.0 / kChunks;

std::vector<int64_t> Chunks() { return std::vector<int64_t>(kChunks, 64); }

double Step(double compute, const ExchangeTimes& times) {
  return StepSeconds(EvenProfile(compute, Chunks()), Chunks(), times);
}

TEST(StepModelTest, WithoutExchangeItIsComputing) {
  EXPECT_NEAR(Step(3, {}), 3, 1e-9);
}

TEST(StepModelTest, SmallExchangeHidesBehindComputing) {
  // The last gradient is that of the chunk which forward needs first: it alone
  // is not hidden.
  EXPECT_NEAR(Step(3, {0.3, 0.1, 0.3}), 3, 0.7 * kChunkTolerance + 1e-3);
}

TEST(StepModelTest, WithoutComputingUpAndDownOverlapOnTwoLinks) {
  EXPECT_NEAR(Step(0, {2, 0, 2}), 2, 2 * kChunkTolerance);
  EXPECT_NEAR(Step(0, {2, 0, 1}), 2, 2 * kChunkTolerance);
  EXPECT_NEAR(Step(0, {1, 3, 2}), 3, 3 * kChunkTolerance);
}

TEST(StepModelTest, WithoutComputingUpAndDownAddUpOnASharedLink) {
  ExchangeTimes times = {2, 0, 1};
  times.shared_link = true;
  EXPECT_NEAR(Step(0, times), 3, 3 * kChunkTolerance);
}

TEST(StepModelTest, ClippingPutsUpBeforeDown) {
  ExchangeTimes times = {2, 0.5, 1};
  times.update_waits_for_all = true;
  // Updates overlap with their way down.
  EXPECT_NEAR(Step(0, times), 3, 3 * kChunkTolerance);
  // Forward (1 s of 3) hides what comes down, backward what goes up.
  EXPECT_NEAR(Step(3, {0.5, 0, 0.5, false, true}), 3, 0.01);
}

TEST(StepModelTest, SlowLinkHidesComputing) {
  // Gradients of the last layers leave as soon as backward begins. Those of the
  // first layers overtake what waits, so forward runs while the rest comes:
  // the link is busy from one backward's begin to the next one's.
  EXPECT_NEAR(Step(3, {10, 0, 10}), 10, 0.05);
  // With one link for both ways the two add up, and nothing else.
  EXPECT_NEAR(Step(3, {10, 0, 10, /*shared_link=*/true}), 20, 0.05);
}

TEST(StepModelTest, NeverBeatsItsSlowestResourceNorLosesToNoOverlap) {
  for (const double compute : {0.0, 0.5, 3.0, 20.0}) {
    for (const double up : {0.0, 1.0, 4.0}) {
      for (const double down : {0.0, 1.0, 6.0}) {
        for (const double pass : {0.0, 2.0}) {
          for (const bool shared : {false, true}) {
            for (const bool waits : {false, true}) {
              const ExchangeTimes times = {up, pass, down, shared, waits};
              const double step = Step(compute, times);
              const double link = shared ? up + down : std::max(up, down);
              EXPECT_GE(step, std::max({compute, link, pass}) - 1e-9);
              EXPECT_LE(step, compute + up + down + pass + 1e-9);
            }
          }
        }
      }
    }
  }
}

TEST(StepModelTest, OneChunkOverlapsWithNothing) {
  const std::vector<int64_t> one = {1000};
  EXPECT_NEAR(StepSeconds(EvenProfile(3, one), one, {1, 0.5, 2}), 6.5, 1e-9);
}

TEST(StepModelTest, ParametersAtTheEndOverlapWithBackward) {
  // Nearly all elements in the last chunk: its gradient is ready at the start
  // of backward and it is needed at the end of forward.
  const std::vector<int64_t> sizes = {1, 100000};
  ComputeProfile profile;
  profile.seconds = 3;
  profile.needed_at = {0, 1};
  profile.ready_at = {3, 1};
  EXPECT_NEAR(StepSeconds(profile, sizes, {1, 0, 1}), 3, 1e-3);
}

TEST(StepModelTest, ProfilesStretch) {
  const ComputeProfile profile = Stretch(EvenProfile(3, Chunks()), 2);
  EXPECT_DOUBLE_EQ(profile.seconds, 6);
  EXPECT_DOUBLE_EQ(profile.needed_at[0], 0);
  EXPECT_NEAR(profile.needed_at.back(), 2, 0.01);
  EXPECT_DOUBLE_EQ(profile.ready_at[0], 6);
  EXPECT_NEAR(profile.ready_at.back(), 2, 0.01);
}

}  // namespace
}  // namespace tributary
