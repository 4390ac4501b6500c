#include "common/pipeline/stage_balance.h"

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Layers that can be cut anywhere, for devices of speed 1.
BalanceInput EqualLayers(int layers, int stages) {
  BalanceInput input;
  input.micro_batches = 8;
  for (int i = 0; i < layers; ++i) {
    input.layers.push_back({absl::StrCat("layer", i), {{1, 1, 1}, 0, 0, 0}});
    if (i > 0) input.cuts.push_back({i, 0});
  }
  input.devices.resize(stages);
  return input;
}

// First layers of the stages.
std::vector<int> Begins(const StageBalance& balance) {
  std::vector<int> begins;
  for (const BalancedStage& stage : balance.stages)
    begins.push_back(stage.begin_layer);
  return begins;
}

std::vector<int64_t> Memory(const StageBalance& balance) {
  std::vector<int64_t> bytes;
  for (const BalancedStage& stage : balance.stages)
    bytes.push_back(stage.memory_bytes);
  return bytes;
}

// Returns the splits at all sets of cuts.
std::vector<std::vector<int>> AllSplits(int cuts, int stages) {
  std::vector<bool> chosen(cuts);
  std::fill_n(chosen.begin(), stages - 1, true);
  std::vector<std::vector<int>> splits;
  do {
    std::vector<int> split;
    for (int i = 0; i < cuts; ++i)
      if (chosen[i]) split.push_back(i);
    splits.push_back(split);
  } while (std::prev_permutation(chosen.begin(), chosen.end()));
  return splits;
}

BalanceInput RandomInput(std::mt19937* random) {
  const auto below = [random](int end) {
    return static_cast<int>((*random)() % end);
  };
  BalanceInput input = EqualLayers(7 + below(4), 2 + below(3));
  input.schedule = AllSchedules()[below(3)].schedule;
  input.micro_batches = 1 + below(8);
  for (PipelineLayer& layer : input.layers) {
    layer.cost.seconds = {1.0 + below(9), 1.0 + below(9), 1.0 + below(9)};
    layer.cost.activation_bytes = below(100);
    layer.cost.weight_pass_bytes = below(100);
    layer.cost.parameter_bytes = below(500);
  }
  for (PipelineCut& cut : input.cuts) cut.bytes = below(50);
  // Not every cut is allowed.
  input.cuts.erase(input.cuts.begin() + below(5));
  for (PipelineDevice& device : input.devices) {
    device.speed = 0.5 * (1 + below(4));
    device.memory_bytes = 1000 + below(2000);
  }
  input.links.resize(input.devices.size() - 1);
  for (PipelineLink& link : input.links)
    link = {1.0 + below(10), 0.1 * below(10)};
  return input;
}

TEST(StageBalanceTest, EqualLayersAreDividedEqually) {
  const auto balance = BalanceStages(EqualLayers(8, 4));
  ASSERT_TRUE(balance.ok());
  EXPECT_THAT(Begins(*balance), ElementsAre(0, 2, 4, 6));
  EXPECT_EQ(balance->stages[3].end_layer, 8);
  EXPECT_DOUBLE_EQ(balance->stages[0].seconds.total(), 6);
  EXPECT_DOUBLE_EQ(balance->step_seconds, (8 + 4 - 1) * 6);
  EXPECT_DOUBLE_EQ(balance->bubble, 3.0 / 11);
}

TEST(StageBalanceTest, AFastDeviceGetsMoreLayers) {
  BalanceInput input = EqualLayers(8, 2);
  input.devices[0].speed = 3;
  const auto balance = BalanceStages(input);
  ASSERT_TRUE(balance.ok());
  EXPECT_THAT(Begins(*balance), ElementsAre(0, 6));
  EXPECT_DOUBLE_EQ(balance->stages[0].seconds.forward, 2);
}

TEST(StageBalanceTest, OneStageHoldsAllLayers) {
  const auto balance = BalanceStages(EqualLayers(3, 1));
  ASSERT_TRUE(balance.ok());
  EXPECT_THAT(Begins(*balance), ElementsAre(0));
  EXPECT_DOUBLE_EQ(balance->step_seconds, 8 * 9);
}

TEST(StageBalanceTest, CutsOnlyWhereThatIsAllowed) {
  BalanceInput input = EqualLayers(8, 2);
  input.cuts = {{1, 0}, {3, 0}, {6, 0}};
  const auto balance = BalanceStages(input);
  ASSERT_TRUE(balance.ok());
  EXPECT_THAT(Begins(*balance), ElementsAre(0, 3));
}

TEST(StageBalanceTest, ASlowLinkMovesTheCut) {
  BalanceInput input = EqualLayers(8, 2);
  for (PipelineCut& cut : input.cuts) cut.bytes = cut.layer == 3 ? 1 : 100;
  input.links = {{/*bytes_per_second=*/1, /*latency_seconds=*/0}};
  const auto balance = BalanceStages(input);
  ASSERT_TRUE(balance.ok());
  EXPECT_THAT(Begins(*balance), ElementsAre(0, 3));
  EXPECT_EQ(balance->stages[0].boundary_bytes, 1);
  EXPECT_EQ(balance->stages[1].boundary_bytes, 0);
}

TEST(StageBalanceTest, MemoryIsWhatTheScheduleHolds) {
  BalanceInput input = EqualLayers(3, 3);
  for (PipelineLayer& layer : input.layers) {
    layer.cost.activation_bytes = 100;
    layer.cost.weight_pass_bytes = 10;
    layer.cost.parameter_bytes = 1000;
  }
  input.schedule = PipelineSchedule::kGPipe;
  EXPECT_THAT(Memory(*BalanceStages(input)), ElementsAre(1800, 1800, 1800));
  input.schedule = PipelineSchedule::kOneForwardOneBackward;
  EXPECT_THAT(Memory(*BalanceStages(input)), ElementsAre(1300, 1200, 1100));
  input.schedule = PipelineSchedule::kZeroBubble;
  EXPECT_THAT(Memory(*BalanceStages(input)), ElementsAre(1300, 1210, 1120));
  // When a backward pass ends, what its weight pass needs takes the place of
  // its activations.
  for (PipelineLayer& layer : input.layers) layer.cost.weight_pass_bytes = 150;
  EXPECT_THAT(Memory(*BalanceStages(input)), ElementsAre(1350, 1400, 1450));
  // Queues of two messages in each direction.
  input.schedule = PipelineSchedule::kOneForwardOneBackward;
  for (PipelineCut& cut : input.cuts) cut.bytes = 7;
  EXPECT_THAT(Memory(*BalanceStages(input)), ElementsAre(1314, 1228, 1114));
  // Eight micro-batches with weights of their own.
  for (PipelineLayer& layer : input.layers) layer.cost.learner_bytes = 50;
  EXPECT_THAT(Memory(*BalanceStages(input)), ElementsAre(1714, 1628, 1514));
}

TEST(StageBalanceTest, AStageWithLittleMemoryGetsFewLayers) {
  BalanceInput input = EqualLayers(8, 2);
  for (PipelineLayer& layer : input.layers) layer.cost.activation_bytes = 10;
  // The first stage holds two micro-batches.
  input.devices[0].memory_bytes = 2 * 10 * 3;
  const auto balance = BalanceStages(input);
  ASSERT_TRUE(balance.ok());
  EXPECT_THAT(Begins(*balance), ElementsAre(0, 3));
}

TEST(StageBalanceTest, NamesTheStageThatMissesMemory) {
  BalanceInput input = EqualLayers(4, 2);
  for (PipelineLayer& layer : input.layers) layer.cost.parameter_bytes = 100;
  input.devices[0].memory_bytes = 100;
  input.devices[1].memory_bytes = 280;
  EXPECT_THAT(BalanceStages(input),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("stage 1 (layer1 to layer3)"),
                             HasSubstr("300 bytes"), HasSubstr("20 more"))));
  EXPECT_THAT(EvaluateSplit(input, {1}),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("stage 0 (layer0 to layer1)"),
                             HasSubstr("100 more"))));
}

TEST(StageBalanceTest, RefusesMoreStagesThanSegments) {
  BalanceInput input = EqualLayers(8, 3);
  input.cuts = {{4, 0}};
  EXPECT_THAT(BalanceStages(input),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("3 stages"), HasSubstr("1 place"))));
}

TEST(StageBalanceTest, AGivenSplitIsEvaluated) {
  const auto balance = EvaluateSplit(EqualLayers(8, 3), {0, 4});
  ASSERT_TRUE(balance.ok());
  EXPECT_THAT(Begins(*balance), ElementsAre(0, 1, 5));
  EXPECT_DOUBLE_EQ(balance->stages[1].seconds.total(), 12);
}

TEST(StageBalanceTest, IsNearlyAlwaysTheBestOfAllSplits) {
  constexpr int kTrials = 400;
  std::mt19937 random(3);
  int solved = 0;
  int best_found = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    SCOPED_TRACE(trial);
    const BalanceInput input = RandomInput(&random);
    double best = std::numeric_limits<double>::infinity();
    for (const std::vector<int>& split :
         AllSplits(input.cuts.size(), input.devices.size())) {
      const auto balance = EvaluateSplit(input, split);
      if (balance.ok()) best = std::min(best, balance->step_seconds);
    }
    const auto balance = BalanceStages(input);
    if (best == std::numeric_limits<double>::infinity()) {
      EXPECT_THAT(balance, StatusIs(absl::StatusCode::kResourceExhausted));
      continue;
    }
    ASSERT_TRUE(balance.ok()) << balance.status();
    ++solved;
    EXPECT_LT(balance->step_seconds, 1.05 * best);
    if (balance->step_seconds < (1 + 1e-9) * best) ++best_found;
  }
  EXPECT_GT(solved, kTrials / 2);
  EXPECT_LT(solved, kTrials);
  EXPECT_GE(best_found, 0.98 * solved);
}

TEST(StageBalanceTest, BalancesAThousandLayers) {
  constexpr int kStages = 16;
  std::mt19937 random(5);
  BalanceInput input = EqualLayers(1000, kStages);
  input.schedule = PipelineSchedule::kZeroBubble;
  input.micro_batches = 32;
  PassSeconds mean;
  for (PipelineLayer& layer : input.layers) {
    PassSeconds& seconds = layer.cost.seconds;
    seconds = {1.0 + random() % 10, 1.0 + random() % 10, 1.0 + random() % 10};
    mean.forward += seconds.forward / kStages;
    mean.backward_input += seconds.backward_input / kStages;
    mean.backward_weights += seconds.backward_weights / kStages;
  }
  const auto balance = BalanceStages(input);
  ASSERT_TRUE(balance.ok());
  // No split can be better than equal stages.
  const double bubble =
      BubbleFraction(input.schedule, kStages, input.micro_batches, mean);
  EXPECT_LT(balance->step_seconds,
            1.02 * input.micro_batches * mean.total() / (1 - bubble));
}

}  // namespace
}  // namespace tributary
