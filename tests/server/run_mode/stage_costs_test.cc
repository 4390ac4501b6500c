#include "server/run_mode/stage_costs.h"

#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Ready Report(const std::vector<double>& seconds) {
  Ready ready;
  for (const double second : seconds) {
    ready.add_segment()->set_forward_seconds(second);
  }
  return ready;
}

PipelineSpec SpecOf(int stages) {
  PipelineSpec spec;
  spec.set_stages(stages);
  return spec;
}

TEST(StageCostsTest, MeansTheShapeAndEqualizesNearlyEqualSpeeds) {
  const std::vector<Ready> reports = {Report({1, 3}), Report({2, 2}),
                                      Report({1.9, 1.9}), Report({8, 8})};
  std::vector<const Ready*> pointers;
  for (const Ready& report : reports) pointers.push_back(&report);
  pointers.push_back(nullptr);
  const StageCosts costs = ReadStageCosts(SpecOf(2), reports[0], pointers);
  EXPECT_TRUE(costs.measured);
  // The mean time is 27.8 / 4.
  const double mean = (4 + 4 + 3.8 + 16) / 4;
  const double fast = (2 * mean / 4 + mean / 3.8) / 3;
  const auto near = [](double value) { return DoubleNear(value, 1e-9); };
  EXPECT_THAT(costs.speeds, ElementsAre(near(fast), near(fast), near(fast),
                                        near(mean / 16), near(1)));
  EXPECT_NEAR(costs.input.layers[0].cost.seconds.forward,
              mean * (0.25 + 3 * 0.5) / 4, 1e-9);
  EXPECT_NEAR(costs.input.layers[1].cost.seconds.forward,
              mean * (0.75 + 3 * 0.5) / 4, 1e-9);
}

TEST(StageCostsTest, WorkersOfAPoolSeeTheSameMemory) {
  std::vector<Ready> reports(5, Report({1, 1}));
  for (int i = 0; i < 3; ++i) reports[i].set_memory_bytes(100 - i);
  reports[0].set_memory_pool("host");
  reports[1].set_memory_pool("host");
  reports[4].set_memory_pool("host");
  std::vector<const Ready*> pointers = {nullptr};
  for (const Ready& report : reports) pointers.push_back(&report);
  constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(ReadStageCosts(SpecOf(2), reports[0], pointers).memory_bytes,
              ElementsAre(kUnknown, 99, 99, 98, kUnknown, 99));
}

TEST(StageCostsTest, RefusesNumbersThatCannotBe) {
  const auto expect_refused = [](const Ready& ready, const std::string& text) {
    EXPECT_THAT(CheckSegments(SpecOf(2), ready),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text)));
  };
  EXPECT_TRUE(CheckSegments(SpecOf(2), Report({1, 2, 3})).ok());
  expect_refused(Report({1}), "has 1 segments");
  expect_refused(Report({1, std::numeric_limits<double>::quiet_NaN()}),
                 "forward_seconds");
  expect_refused(Report({1, std::numeric_limits<double>::infinity()}),
                 "forward_seconds");
  expect_refused(Report({1, -1}), "forward_seconds");
  expect_refused(Report({1e-200, 0}), "all layers take 1e-200 s");
  expect_refused(Report(std::vector<double>(kMostSegments + 1, 1)),
                 "at most 256");
  EXPECT_TRUE(
      CheckSegments(SpecOf(2), Report(std::vector<double>(kMostSegments, 0)))
          .ok());
  Ready ready = Report({1, 1});
  ready.mutable_segment(1)->set_activation_bytes(-1);
  expect_refused(ready, "activation_bytes");
  ready = Report({1, 1});
  for (StageSegment& segment : *ready.mutable_segment()) {
    segment.set_parameter_bytes(std::numeric_limits<int64_t>::max());
  }
  expect_refused(ready, "parameter_bytes");
  ready = Report({1, 1});
  ready.set_memory_bytes(-1);
  expect_refused(ready, "memory_bytes");
  PipelineSpec named = SpecOf(2);
  named.add_split("b");
  EXPECT_TRUE(CheckSegments(named, Report({1, 1})).ok());
  EXPECT_THAT(CheckSegments(named, Report({1, 1, 1})),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace tributary
