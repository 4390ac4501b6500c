#include "common/optimizer/averaged.h"

#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/job/job.h"
#include "common/optimizer/optimizer.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

constexpr const char* kRules[] = {
    "sgd {learning_rate: 0.1 momentum: 0 weight_decay: 0.02}",
    "sgd {learning_rate: 0.1 momentum: 0.9}",
    "sgd {learning_rate: 0.1 momentum: 0.8 nesterov: true}",
    "adam {learning_rate: 0.01 weight_decay: 0.03}",
    "adamw {learning_rate: 0.01 weight_decay: 0.1}",
    "adagrad {learning_rate: 0.1 weight_decay: 0.02}",
    "rmsprop {learning_rate: 0.01 weight_decay: 0.02}",
    "rmsprop {learning_rate: 0.01 momentum: 0.9}",
    "adadelta {learning_rate: 1 weight_decay: 0.02}",
    "lion {learning_rate: 0.01 weight_decay: 0.1}",
    "lamb {learning_rate: 0.01 weight_decay: 0.1}"};

std::unique_ptr<Optimizer> Make(const std::string& spec) {
  JobSpec job;
  const absl::Status status = SetField(&job, "optimizer={" + spec + "}");
  EXPECT_TRUE(status.ok()) << status;
  auto optimizer = Optimizer::Create(job.optimizer());
  EXPECT_TRUE(optimizer.ok()) << optimizer.status();
  return *std::move(optimizer);
}

std::unique_ptr<Optimizer> MakeAveraged(const std::string& rule,
                                        double decay = 0.9) {
  return Make(absl::StrCat(rule, " average_decay: ", decay));
}

std::vector<float> Random(int count, int seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> distribution;
  std::vector<float> values(count);
  for (float& value : values) value = distribution(generator);
  return values;
}

// The weights and the state of an optimizer.
struct State {
  std::vector<float> weights;
  std::vector<std::vector<float>> slots;

  State(const Optimizer& optimizer, std::vector<float> from)
      : weights(std::move(from)),
        slots(optimizer.slots(), std::vector<float>(weights.size())) {}

  double AverageAt(size_t i) const {
    return static_cast<double>(weights[i]) + slots.back()[i];
  }
};

// Runs step `number` with these gradients.
void Step(const Optimizer& optimizer, int64_t number,
          const std::vector<float>& gradients,
          std::vector<ChunkSegment> segments, State* state) {
  if (segments.empty()) {
    segments.push_back({0, static_cast<int64_t>(gradients.size()), DECAY});
  }
  std::vector<float> next = state->weights;
  std::vector<float*> slots;
  for (std::vector<float>& slot : state->slots) slots.push_back(slot.data());
  UpdateStep at;
  at.number = number;
  at.learning_rate = 0.5;
  at.statistics_scale = 0.1f;
  UpdateArguments arguments;
  arguments.gradient_sum = gradients.data();
  arguments.weights = state->weights.data();
  arguments.new_weights = next.data();
  arguments.slots = slots;
  arguments.segments = segments;
  optimizer.At(at).Update(arguments);
  state->weights = std::move(next);
}

// All numbers are exact in float32.
TEST(AveragedTest, TwoStepsByHand) {
  const auto optimizer =
      MakeAveraged("sgd {learning_rate: 0.5 momentum: 0}", 0.75);
  State state(*optimizer, {1});
  EXPECT_EQ(state.AverageAt(0), 1);
  Step(*optimizer, 0, {1}, {}, &state);
  EXPECT_EQ(state.weights[0], 0.5f);
  EXPECT_EQ(state.AverageAt(0), 0.75 * 1 + 0.25 * 0.5);
  Step(*optimizer, 1, {-2}, {}, &state);
  EXPECT_EQ(state.weights[0], 1.5f);
  EXPECT_EQ(state.AverageAt(0), 0.75 * 0.875 + 0.25 * 1.5);
}

TEST(AveragedTest, FollowsTheFormulaInDoublePrecision) {
  constexpr int kCount = 100, kSteps = 40;
  constexpr double kDecay = 0.9;
  for (const char* rule : kRules) {
    const auto optimizer = MakeAveraged(rule, kDecay);
    State state(*optimizer, Random(kCount, 1));
    std::vector<double> average(state.weights.begin(), state.weights.end());
    for (int step = 0; step < kSteps; ++step) {
      Step(*optimizer, step, Random(kCount, 10 + step), {}, &state);
      for (int i = 0; i < kCount; ++i) {
        average[i] = kDecay * average[i] + (1 - kDecay) * state.weights[i];
      }
    }
    for (int i = 0; i < kCount; ++i) {
      // The rounding of the weights.
      EXPECT_NEAR(state.AverageAt(i), average[i],
                  1e-6 * (10 + std::abs(average[i])))
          << rule;
    }
  }
}

TEST(AveragedTest, DoesNotChangeTheWeights) {
  constexpr int kCount = 1000;
  for (const char* rule : kRules) {
    const auto plain = Make(rule), averaged = MakeAveraged(rule);
    State expected(*plain, Random(kCount, 1));
    State state(*averaged, Random(kCount, 1));
    for (int step = 0; step < 3; ++step) {
      const std::vector<float> gradients = Random(kCount, 10 + step);
      Step(*plain, step, gradients, {}, &expected);
      Step(*averaged, step, gradients, {}, &state);
    }
    EXPECT_EQ(state.weights, expected.weights) << rule;
    state.slots.pop_back();
    EXPECT_EQ(state.slots, expected.slots) << rule;
  }
}

TEST(AveragedTest, NamesItsSlotAfterThoseOfTheRule) {
  EXPECT_EQ(MakeAveraged("sgd {learning_rate: 1 momentum: 0}")->slot_names(),
            (std::vector<std::string>{"average_offset"}));
  EXPECT_EQ(
      MakeAveraged("adamw {learning_rate: 0.1}")->slot_names(),
      (std::vector<std::string>{"exp_avg", "exp_avg_sq", "average_offset"}));
}

// Element 0 is a weight, 1 a statistic, 2 is frozen (it has no segment).
TEST(AveragedTest, IsEqualToStatisticsAndToFrozenWeights) {
  const auto optimizer = MakeAveraged("sgd {learning_rate: 0.5 momentum: 0}");
  State state(*optimizer, {1, 2, 3});
  for (int step = 0; step < 3; ++step) {
    Step(*optimizer, step, {1, 1, 1}, {{0, 1, DECAY}, {1, 2, STATISTICS}},
         &state);
  }
  EXPECT_NE(state.AverageAt(0), state.weights[0]);
  EXPECT_NE(state.weights[1], 2);
  EXPECT_EQ(state.AverageAt(1), state.weights[1]);
  EXPECT_EQ(state.weights[2], 3);
  EXPECT_EQ(state.AverageAt(2), 3);
}

TEST(AveragedTest, AveragesWhatAFactorOfTheLearningRateMakes) {
  const auto optimizer =
      MakeAveraged("sgd {learning_rate: 0.5 momentum: 0}", 0.75);
  State state(*optimizer, {1});
  ChunkSegment segment = {0, 1, DECAY};
  segment.learning_rate_factor = 0.5f;
  Step(*optimizer, 0, {1}, {segment}, &state);
  EXPECT_EQ(state.weights[0], 0.75f);
  EXPECT_EQ(state.AverageAt(0), 0.75 * 1 + 0.25 * 0.75);
}

TEST(AveragedTest, ContinuesFromItsSlots) {
  constexpr int kCount = 100;
  for (const char* rule : kRules) {
    const auto first = MakeAveraged(rule);
    State uninterrupted(*first, Random(kCount, 1));
    Step(*first, 0, Random(kCount, 2), {}, &uninterrupted);
    State restored = uninterrupted;
    Step(*first, 1, Random(kCount, 3), {}, &uninterrupted);
    Step(*MakeAveraged(rule), 1, Random(kCount, 3), {}, &restored);
    EXPECT_EQ(restored.weights, uninterrupted.weights) << rule;
    EXPECT_EQ(restored.slots, uninterrupted.slots) << rule;
  }
}

TEST(AveragedTest, RefusesADecayOutOfRange) {
  OptimizerSpec spec;
  spec.mutable_sgd()->set_learning_rate(1);
  for (const double decay : {-0.1, 1.0}) {
    spec.set_average_decay(decay);
    const absl::Status status = Optimizer::Create(spec).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(), absl::StrCat("optimizer.average_decay: ", decay,
                                             " is not at least 0 and below 1"));
  }
}

}  // namespace
}  // namespace tributary
