#include "common/optimizer/optimizer.h"

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/job/job.h"
#include "common/numerics/simd.h"
#include "common/optimizer/element_loops.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/optimizer/optimizer_golden.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

std::vector<float> Random(int count, int seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> distribution;
  std::vector<float> values(count);
  for (float& value : values) value = distribution(generator);
  return values;
}

OptimizerSpec Spec(const std::string& text) {
  JobSpec job;
  EXPECT_EQ(SetField(&job, "optimizer={" + text + "}"), absl::OkStatus());
  return job.optimizer();
}

constexpr char kPlain[] =
    "sgd {learning_rate: 0.1 momentum: 0 weight_decay: 0.02}";
constexpr char kMomentum[] =
    "sgd {learning_rate: 0.1 momentum: 0.9 weight_decay: 0.02}";
constexpr char kNesterov[] =
    "sgd {learning_rate: 0.1 momentum: 0.8 nesterov: true weight_decay: 0.02}";
constexpr char kAdamText[] =
    "adam {learning_rate: 0.01 beta1: 0.8 beta2: 0.95 epsilon: 1e-6 "
    "weight_decay: 0.03}";
constexpr char kAdamWText[] =
    "adamw {learning_rate: 0.01 beta1: 0.9 beta2: 0.99 epsilon: 1e-8 "
    "weight_decay: 0.1}";
constexpr const char* kEvery[] = {kPlain, kMomentum, kNesterov, kAdamText,
                                  kAdamWText};

// A chunk with its state, and the rule that updates it.
class Chunk {
 public:
  Chunk(const std::string& spec, std::vector<float> weights)
      : optimizer_(*Optimizer::Create(Spec(spec))),
        weights_(std::move(weights)),
        slots_(optimizer_->slots(), std::vector<float>(weights_.size())),
        segments_({{0, static_cast<int64_t>(weights_.size()), DECAY}}) {}

  void SetSegments(std::vector<ChunkSegment> segments) {
    segments_ = std::move(segments);
  }

  void SetStatisticsScale(float scale) { statistics_scale_ = scale; }

  void Step(const std::vector<float>& sum, double learning_rate,
            float scale = 1, const std::vector<float>* other = nullptr) {
    std::vector<float> next(weights_.size(), 0);
    std::vector<float*> slots;
    for (std::vector<float>& slot : slots_) slots.push_back(slot.data());
    UpdateStep at;
    UpdateArguments arguments;
    arguments.gradient_sum = sum.data();
    if (other != nullptr) arguments.other_gradient_sum = other->data();
    at.gradient_scale = scale;
    at.statistics_scale = statistics_scale_;
    arguments.weights = weights_.data();
    arguments.new_weights = next.data();
    arguments.slots = slots;
    arguments.segments = segments_;
    at.learning_rate = learning_rate;
    at.number = step_++;
    optimizer_->At(at).Update(arguments);
    weights_ = std::move(next);
  }

  const std::vector<float>& weights() const { return weights_; }
  const std::vector<std::vector<float>>& slots() const { return slots_; }

 private:
  const std::unique_ptr<Optimizer> optimizer_;
  std::vector<float> weights_;
  std::vector<std::vector<float>> slots_;
  std::vector<ChunkSegment> segments_;
  float statistics_scale_ = 0;
  int64_t step_ = 0;
};

// PyTorch orders some operations otherwise (and fuses a few): each step may
// differ by a few roundings of numbers near 1, 2^-24 each.
constexpr float kGoldenTolerance = 1e-6;

void ExpectGolden(const std::string& spec, double learning_rate,
                  const float (&golden)[kGoldenSteps][kGoldenCount]) {
  std::vector<float> weights;
  std::vector<ChunkSegment> segments;
  for (int i = 0; i < kGoldenCount; ++i) {
    weights.push_back(static_cast<float>(((i * 37) % 17 - 8) / 10.0));
    segments.push_back({i, i + 1, i % 2 == 0 ? DECAY : NO_DECAY});
  }
  Chunk chunk(spec, weights);
  chunk.SetSegments(segments);
  for (int step = 0; step < kGoldenSteps; ++step) {
    // A sum over four samples.
    std::vector<float> sum;
    for (int i = 0; i < kGoldenCount; ++i) {
      const double gradient = ((i * 53 + step * 29) % 23 - 11) / 7.0;
      sum.push_back(static_cast<float>(4 * gradient));
    }
    chunk.Step(sum, learning_rate, /*scale=*/0.25f);
    for (int i = 0; i < kGoldenCount; ++i) {
      EXPECT_NEAR(chunk.weights()[i], golden[step][i], kGoldenTolerance)
          << spec << " step " << step << " element " << i;
    }
  }
}

TEST(OptimizerTest, FollowsPyTorch) {
  ExpectGolden(kPlain, 0.1, kSgdPlain);
  ExpectGolden(kMomentum, 0.1, kSgdMomentum);
  ExpectGolden(kNesterov, 0.1, kSgdNesterov);
  ExpectGolden(kAdamText, 0.01, kAdam);
  ExpectGolden(kAdamWText, 0.01, kAdamW);
}

// The formulas of job.proto in double precision.
struct Reference {
  double w, v = 0, m = 0;

  void Sgd(double g, double rate, double momentum, bool nesterov,
           double decay) {
    g += decay * w;
    v = momentum * v + g;
    w -= rate * (nesterov ? g + momentum * v : v);
  }
  void AdamRule(double g, double rate, double b1, double b2, double epsilon,
                double l2, double decoupled, int t) {
    w -= rate * decoupled * w;
    g += l2 * w;
    m = b1 * m + (1 - b1) * g;
    v = b2 * v + (1 - b2) * g * g;
    w -= rate * (m / (1 - std::pow(b1, t))) /
         (std::sqrt(v / (1 - std::pow(b2, t))) + epsilon);
  }
};

TEST(OptimizerTest, FollowsDoublePrecisionOverManySteps) {
  constexpr int kCount = 50, kSteps = 40;
  for (const char* spec : kEvery) {
    const std::vector<float> start = Random(kCount, 1);
    Chunk chunk(spec, start);
    std::vector<Reference> reference;
    for (const float w : start) reference.push_back({w});
    for (int step = 0; step < kSteps; ++step) {
      const std::vector<float> g = Random(kCount, 100 + step);
      const double rate = 0.01 + 0.001 * step;
      chunk.Step(g, rate);
      for (int i = 0; i < kCount; ++i) {
        Reference& r = reference[i];
        if (spec == kPlain) r.Sgd(g[i], rate, 0, false, 0.02);
        if (spec == kMomentum) r.Sgd(g[i], rate, 0.9, false, 0.02);
        if (spec == kNesterov) r.Sgd(g[i], rate, 0.8, true, 0.02);
        if (spec == kAdamText) {
          r.AdamRule(g[i], rate, 0.8, 0.95, 1e-6, 0.03, 0, step + 1);
        }
        if (spec == kAdamWText) {
          r.AdamRule(g[i], rate, 0.9, 0.99, 1e-8, 0, 0.1, step + 1);
        }
      }
    }
    for (int i = 0; i < kCount; ++i) {
      // 40 steps of a few roundings each of numbers below about 10.
      EXPECT_NEAR(chunk.weights()[i], reference[i].w, 2e-5) << spec;
    }
  }
}

TEST(OptimizerTest, HasTheDocumentedNumberOfSlots) {
  EXPECT_EQ((*Optimizer::Create(Spec(kPlain)))->slots(), 0);
  EXPECT_EQ((*Optimizer::Create(Spec(kMomentum)))->slots(), 1);
  EXPECT_EQ((*Optimizer::Create(Spec(kAdamText)))->slots(), 2);
  EXPECT_EQ((*Optimizer::Create(Spec(kAdamWText)))->slots(), 2);
}

TEST(OptimizerTest, RefusesASpecWithoutARule) {
  EXPECT_THAT(Optimizer::Create(OptimizerSpec()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       testing::HasSubstr("optimizer: ")));
}

TEST(OptimizerTest, NamesTheRule) {
  EXPECT_EQ(OptimizerName(Spec(kMomentum)), "sgd");
  EXPECT_EQ(OptimizerName(Spec(kAdamText)), "adam");
  EXPECT_EQ(OptimizerName(Spec(kAdamWText)), "adamw");
  EXPECT_EQ(OptimizerName(OptimizerSpec()), "");
}

TEST(OptimizerTest, RefusesOptionsOutOfRange) {
  EXPECT_THAT(Optimizer::Create(Spec("adamw {learning_rate: 0.01 beta2: 1}")),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       testing::HasSubstr("optimizer.adamw.beta2: 1")));
}

TEST(OptimizerTest, RefusesGroupsOutOfRange) {
  const auto refusal = [](const std::string& group) {
    const absl::Status status =
        Optimizer::Create(
            Spec("adamw {learning_rate: 0.01 weight_decay: 0.5} group {" +
                 group + "}"))
            .status();
    EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  EXPECT_EQ(refusal("parameters: '*' learning_rate_factor: 100"), "");
  EXPECT_EQ(refusal("learning_rate_factor: 2"),
            "optimizer.group[0].parameters: is required: names of parameters, "
            "such as 'output.*'");
  EXPECT_EQ(refusal("parameters: '*' learning_rate_factor: 0"),
            "optimizer.group[0].learning_rate_factor: 0 is not above 0 and at "
            "most 1000");
  EXPECT_EQ(refusal("parameters: '*' learning_rate_factor: 200"),
            "optimizer.group[0].learning_rate_factor: 200 times "
            "optimizer.adamw.weight_decay 0.5 and the learning rate 0.01 is "
            "not below 1: every step would set the weights to 0");
}

TEST(OptimizerTest, TheDivisionIntoSegmentsDoesNotChangeBits) {
  constexpr int kCount = 1000;
  for (const char* spec : kEvery) {
    Chunk whole(spec, Random(kCount, 1)), cut(spec, Random(kCount, 1));
    cut.SetSegments({{0, 1, DECAY}, {1, 333, DECAY}, {333, kCount, DECAY}});
    for (int step = 0; step < 3; ++step) {
      const std::vector<float> g = Random(kCount, 10 + step);
      whole.Step(g, 0.01);
      cut.Step(g, 0.01);
    }
    EXPECT_EQ(whole.weights(), cut.weights()) << spec;
    EXPECT_EQ(whole.slots(), cut.slots()) << spec;
  }
}

TEST(OptimizerTest, TwoHalvesGiveTheBitsOfTheirSum) {
  constexpr int kCount = 1000;
  const std::vector<float> a = Random(kCount, 5), b = Random(kCount, 6);
  std::vector<float> sum(kCount);
  for (int i = 0; i < kCount; ++i) sum[i] = a[i] + b[i];
  for (const char* spec : kEvery) {
    Chunk one(spec, Random(kCount, 1)), two(spec, Random(kCount, 1));
    one.Step(sum, 0.01, 0.3f);
    two.Step(a, 0.01, 0.3f, &b);
    EXPECT_EQ(one.weights(), two.weights()) << spec;
    EXPECT_EQ(one.slots(), two.slots()) << spec;
  }
}

TEST(OptimizerTest, StatisticsMoveByTheirOwnRuleAlone) {
  const std::vector<float> halves = {1, 2, 3, 4};
  for (const char* spec : kEvery) {
    for (const std::vector<float>* other :
         {&halves, (decltype(&halves))nullptr}) {
      Chunk chunk(spec, {1, 2, 3, 4});
      chunk.SetSegments({{0, 1, DECAY}, {1, 3, STATISTICS}, {3, 4, DECAY}});
      chunk.SetStatisticsScale(0.25f);
      // Neither the learning rate nor the gradient's scale, nor momentum in the
      // second step.
      for (int step = 1; step <= 2; ++step) {
        chunk.Step(halves, 0.01, 7, other);
        const float rate = other == nullptr ? 0.25f : 0.5f;
        EXPECT_EQ(chunk.weights()[1], 2 - step * rate * 2) << spec;
        EXPECT_EQ(chunk.weights()[2], 3 - step * rate * 3) << spec;
      }
      for (const std::vector<float>& slot : chunk.slots()) {
        EXPECT_EQ(slot[1], 0);
        EXPECT_NE(slot[3], 0);
      }
    }
  }
}

TEST(OptimizerTest, AFactorOfTheLearningRateIsThatOfPyTorchsGroups) {
  constexpr int kCount = 100, kSteps = 20;
  for (const char* spec : kEvery) {
    const std::vector<float> start = Random(kCount, 1);
    Chunk chunk(spec, start), other(spec, start);
    chunk.SetSegments(
        {{0, 40, DECAY, 0.3f}, {40, 70, DECAY}, {70, 100, DECAY, 4}});
    for (int step = 0; step < kSteps; ++step) {
      const std::vector<float> g = Random(kCount, 100 + step);
      chunk.Step(g, 0.01);
      other.Step(g, 0.01);
    }
    Chunk slow(spec, start), fast(spec, start);
    for (int step = 0; step < kSteps; ++step) {
      const std::vector<float> g = Random(kCount, 100 + step);
      slow.Step(g, 0.003);
      fast.Step(g, 0.04);
    }
    for (int i = 0; i < kCount; ++i) {
      const Chunk& expected = i < 40 ? slow : i < 70 ? other : fast;
      // The coefficients are rounded differently.
      const double tolerance = i >= 40 && i < 70 ? 0 : 5e-6;
      EXPECT_NEAR(chunk.weights()[i], expected.weights()[i], tolerance)
          << spec << " element " << i;
    }
  }
}

TEST(OptimizerTest, LeavesGapsBetweenSegmentsAlone) {
  for (const char* spec : kEvery) {
    Chunk chunk(spec, {1, 2, 3, 4});
    chunk.SetSegments({{0, 1, DECAY}, {3, 4, NO_DECAY}});
    chunk.Step({1, 1, 1, 1}, 0.01);
    // Step starts from new weights of zero.
    EXPECT_NE(chunk.weights()[0], 0);
    EXPECT_EQ(chunk.weights()[1], 0);
    EXPECT_EQ(chunk.weights()[2], 0);
    EXPECT_NE(chunk.weights()[3], 0);
    for (const std::vector<float>& slot : chunk.slots()) {
      EXPECT_EQ(slot[1], 0);
    }
  }
}

TEST(OptimizerTest, AveragesOfVanishedGradientsBecomeZero) {
  for (const char* spec : {kMomentum, kAdamText}) {
    Chunk chunk(spec, {1, 1, 1});
    chunk.Step({1e-30f, -1e-37f, 1e-44f}, 0.01);
    for (int step = 0; step < 2000; ++step) chunk.Step({0, 0, 0}, 0);
    for (const float value : chunk.slots()[0]) {
      EXPECT_TRUE(value == 0 || std::isnormal(value)) << spec << " " << value;
    }
  }
}

// Adam and Nesterov as each instruction set computes them; the others are
// parts of these.

struct State {
  std::vector<float> w, out, m, v;
};

TRIBUTARY_INLINE void AdamThenNesterov(const float* g, const AdamRule& adam,
                                       const MomentumSgd<true>& sgd,
                                       State* state) {
  float* const slots[] = {state->m.data(), state->v.data()};
  ElementArrays arrays;
  arrays.gradient_sum = g;
  arrays.gradient_scale = 0.123f;
  arrays.weights = state->w.data();
  arrays.new_weights = state->out.data();
  arrays.slots = slots;
  arrays.end = static_cast<int64_t>(state->w.size());
  element_loops::Update(adam, arrays);
  arrays.weights = state->out.data();
  arrays.new_weights = state->w.data();
  element_loops::Update(sgd, arrays);
}

__attribute__((noinline)) void Baseline(const float* g, const AdamRule& adam,
                                        const MomentumSgd<true>& sgd,
                                        State* state) {
  AdamThenNesterov(g, adam, sgd, state);
}

__attribute__((target("avx2,fma"), noinline)) void Avx2(
    const float* g, const AdamRule& adam, const MomentumSgd<true>& sgd,
    State* state) {
  AdamThenNesterov(g, adam, sgd, state);
}

__attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,fma"), noinline)) void
Avx512(const float* g, const AdamRule& adam, const MomentumSgd<true>& sgd,
       State* state) {
  AdamThenNesterov(g, adam, sgd, state);
}

TEST(OptimizerTest, HasTheSameBitsOnEveryInstructionSet) {
  constexpr int kCount = 1003;
  const auto run = [](auto kernel) {
    const AdamRule adam = {0.9f, 0.1f, 0.99f, 0.01f,  1e-8f,
                           1,    0,    0.01f, 0.013f, 1.7f};
    const MomentumSgd<true> sgd = {0.1f, 0.9f, 0.02f};
    State state = {Random(kCount, 1), std::vector<float>(kCount),
                   std::vector<float>(kCount), std::vector<float>(kCount)};
    for (int step = 0; step < 5; ++step) {
      const std::vector<float> g = Random(kCount, 10 + step);
      kernel(g.data(), adam, sgd, &state);
    }
    return state;
  };
  const State expected = run(Baseline);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    const State state = run(Avx2);
    EXPECT_EQ(state.w, expected.w);
    EXPECT_EQ(state.v, expected.v);
  }
  if (__builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512cd")) {
    const State state = run(Avx512);
    EXPECT_EQ(state.w, expected.w);
    EXPECT_EQ(state.v, expected.v);
  }
}

}  // namespace
}  // namespace tributary
