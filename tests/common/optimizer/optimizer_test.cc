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

using ::testing::ElementsAre;

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
constexpr char kAdagradText[] =
    "adagrad {learning_rate: 0.1 rate_decay: 0.05 weight_decay: 0.02}";
constexpr char kRmspropText[] =
    "rmsprop {learning_rate: 0.01 alpha: 0.95 weight_decay: 0.02}";
constexpr char kRmspropWithMomentum[] =
    "rmsprop {learning_rate: 0.01 epsilon: 1e-6 momentum: 0.8 weight_decay: "
    "0.02}";
constexpr char kAdadeltaText[] =
    "adadelta {learning_rate: 1 weight_decay: 0.02}";
constexpr char kLionText[] = "lion {learning_rate: 0.01 weight_decay: 0.1}";
constexpr const char* kEvery[] = {
    kPlain,        kMomentum,    kNesterov,    kAdamText,
    kAdamWText,    kAdagradText, kRmspropText, kRmspropWithMomentum,
    kAdadeltaText, kLionText};

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

// The golden weights are computed in float64. Each step rounds a few numbers
// near 1, by up to 2^-24 each.
constexpr double kGoldenTolerance = 1e-6;

void ExpectGolden(const std::string& spec, double learning_rate,
                  const double (&golden)[kGoldenRows][kGoldenCount],
                  double tolerance = kGoldenTolerance) {
  std::vector<float> weights;
  std::vector<ChunkSegment> segments;
  for (int i = 0; i < kGoldenCount; ++i) {
    weights.push_back(static_cast<float>(((i * 37) % 17 - 8) / 10.0));
    segments.push_back({i, i + 1, i % 2 == 0 ? DECAY : NO_DECAY});
  }
  Chunk chunk(spec, weights);
  chunk.SetSegments(segments);
  int step = 0;
  for (int row = 0; row < kGoldenRows; ++row) {
    for (; step < kGoldenSteps[row]; ++step) {
      // A sum over four samples.
      std::vector<float> sum;
      for (int i = 0; i < kGoldenCount; ++i) {
        const double gradient = ((i * 53 + step * 29) % 23 - 11) / 7.0;
        sum.push_back(static_cast<float>(4 * gradient));
      }
      chunk.Step(sum, learning_rate, /*scale=*/0.25f);
    }
    for (int i = 0; i < kGoldenCount; ++i) {
      EXPECT_NEAR(chunk.weights()[i], golden[row][i], tolerance)
          << spec << " step " << step << " element " << i;
    }
  }
}

TEST(OptimizerTest, FollowsPyTorch) {
  ExpectGolden(kPlain, 0.1, kSgdPlain);
  ExpectGolden(kMomentum, 0.1, kSgdMomentum);
  ExpectGolden(kNesterov, 0.1, kSgdNesterov);
  ExpectGolden(kAdamText, 0.01, kAdam);
  // The rounding of AdamRule::keep moves weights in the same direction in every
  // step.
  ExpectGolden(kAdamWText, 0.01, kAdamW, /*tolerance=*/2e-6);
  ExpectGolden(kAdagradText, 0.1, kAdagrad);
  ExpectGolden(kRmspropText, 0.01, kRmspropPlain);
  ExpectGolden(kRmspropWithMomentum, 0.01, kRmspropMomentum);
  ExpectGolden(kAdadeltaText, 1, kAdadelta);
  ExpectGolden(kLionText, 0.01, kLion);
}

// The formulas of job.proto in double precision.
struct Reference {
  double w, v = 0, m = 0;

  void Adagrad(double g, double rate, double epsilon, double decay) {
    g += decay * w;
    v += g * g;
    w -= rate * g / (std::sqrt(v) + epsilon);
  }
  void Rmsprop(double g, double rate, double alpha, double epsilon,
               double momentum, double decay) {
    g += decay * w;
    v = alpha * v + (1 - alpha) * g * g;
    m = momentum * m + g / (std::sqrt(v) + epsilon);
    w -= rate * m;
  }
  void Adadelta(double g, double rate, double rho, double epsilon,
                double decay) {
    g += decay * w;
    v = rho * v + (1 - rho) * g * g;
    const double d = std::sqrt(m + epsilon) / std::sqrt(v + epsilon) * g;
    m = rho * m + (1 - rho) * d * d;
    w -= rate * d;
  }
  void Lion(double g, double rate, double b1, double b2, double decay) {
    const double c = b1 * m + (1 - b1) * g;
    w -= rate * ((c > 0) - (c < 0) + decay * w);
    m = b2 * m + (1 - b2) * g;
  }

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
        if (spec == kAdagradText) {
          r.Adagrad(g[i], rate / (1 + 0.05 * step), 1e-10, 0.02);
        }
        if (spec == kRmspropText) {
          r.Rmsprop(g[i], rate, 0.95, 1e-8, 0, 0.02);
        }
        if (spec == kRmspropWithMomentum) {
          r.Rmsprop(g[i], rate, 0.99, 1e-6, 0.8, 0.02);
        }
        if (spec == kAdadeltaText) r.Adadelta(g[i], rate, 0.9, 1e-6, 0.02);
        if (spec == kLionText) r.Lion(g[i], rate, 0.9, 0.99, 0.1);
      }
    }
    for (int i = 0; i < kCount; ++i) {
      // 40 steps of a few roundings each of numbers below about 10.
      EXPECT_NEAR(chunk.weights()[i], reference[i].w, 2e-5) << spec;
    }
  }
}

TEST(OptimizerTest, NamesItsSlotsAsPyTorch) {
  const auto slots = [](const char* spec) {
    return (*Optimizer::Create(Spec(spec)))->slot_names();
  };
  EXPECT_THAT(slots(kPlain), ElementsAre());
  EXPECT_THAT(slots(kMomentum), ElementsAre("momentum_buffer"));
  EXPECT_THAT(slots(kAdamText), ElementsAre("exp_avg", "exp_avg_sq"));
  EXPECT_THAT(slots(kAdamWText), ElementsAre("exp_avg", "exp_avg_sq"));
  EXPECT_THAT(slots(kAdagradText), ElementsAre("sum"));
  EXPECT_THAT(slots(kRmspropText), ElementsAre("square_avg"));
  EXPECT_THAT(slots(kRmspropWithMomentum),
              ElementsAre("square_avg", "momentum_buffer"));
  EXPECT_THAT(slots(kAdadeltaText), ElementsAre("square_avg", "acc_delta"));
  EXPECT_THAT(slots(kLionText), ElementsAre("exp_avg"));
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
  EXPECT_EQ(OptimizerName(Spec(kLionText)), "lion");
  EXPECT_EQ(OptimizerName(Spec("lamb {learning_rate: 0.1}")), "lamb");
  EXPECT_EQ(OptimizerName(OptimizerSpec()), "");
}

TEST(OptimizerTest, RefusesOptionsOutOfRange) {
  for (const auto& [rule, option] :
       std::vector<std::pair<std::string, std::string>>{
           {"adamw", "beta2: 1"},
           {"adagrad", "rate_decay: -1"},
           {"adagrad", "epsilon: 0"},
           {"adagrad", "weight_decay: -1"},
           {"rmsprop", "alpha: 1"},
           {"rmsprop", "epsilon: 0"},
           {"rmsprop", "momentum: 1"},
           {"rmsprop", "weight_decay: -1"},
           {"adadelta", "rho: 1"},
           {"adadelta", "epsilon: 0"},
           {"adadelta", "weight_decay: -1"},
           {"lion", "beta1: 1"},
           {"lion", "beta2: -1"},
           {"lion", "weight_decay: -1"},
           {"lion", "weight_decay: 100"}}) {
    EXPECT_THAT(
        Optimizer::Create(Spec(rule + " {learning_rate: 0.01 " + option + "}")),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 testing::StartsWith("optimizer." + rule + "." + option)));
  }
}

TEST(OptimizerTest, RefusesGroupsOutOfRange) {
  const auto refusal = [](const std::string& group,
                          const std::string& rule = "adamw") {
    const absl::Status status =
        Optimizer::Create(
            Spec(rule + " {learning_rate: 0.01 weight_decay: 0.5} group {" +
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
  EXPECT_THAT(refusal("parameters: '*' learning_rate_factor: 200", "lion"),
              testing::HasSubstr("optimizer.lion.weight_decay 0.5"));
  EXPECT_EQ(refusal("parameters: '*' learning_rate_factor: 200", "adagrad"),
            "");
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
  for (const char* spec : {kMomentum, kAdamText, kRmspropText, kLionText}) {
    Chunk chunk(spec, {1, 1, 1});
    chunk.Step({1e-30f, -1e-37f, 1e-44f}, 0.01);
    for (int step = 0; step < 2000; ++step) chunk.Step({0, 0, 0}, 0);
    for (const float value : chunk.slots()[0]) {
      EXPECT_TRUE(value == 0 || std::isnormal(value)) << spec << " " << value;
    }
  }
}

TEST(OptimizerTest, LionShowsGradientsThatAreNotNumbers) {
  Chunk chunk(kLionText, {1, 1});
  chunk.Step({std::nanf(""), 0}, 0.01);
  EXPECT_TRUE(std::isnan(chunk.weights()[0]));
  EXPECT_EQ(chunk.weights()[1], static_cast<float>(1 - 0.01 * 0.1));
}

// Some rules as each instruction set computes them; the others are parts of
// these.

struct State {
  std::vector<float> w, out, m, v;
};

struct Rules {
  AdamRule adam = {0.9f, 0.1f, 0.99f, 0.01f, 1e-8f, 1, 0, 0.01f, 0.013f, 1.7f};
  MomentumSgd<true> sgd = {0.1f, 0.9f, 0.02f};
  AdadeltaRule adadelta = {1, 0.9f, 0.1f, 1e-6f, 0.02f};
  LionRule lion = {0.01f, 0.9f, 0.1f, 0.99f, 0.01f, 0.999f, 0.001f};
};

TRIBUTARY_INLINE void UpdateByAll(const float* g, const Rules& rules,
                                  State* state) {
  float* const slots[] = {state->m.data(), state->v.data()};
  ElementArrays arrays;
  arrays.gradient_sum = g;
  arrays.gradient_scale = 0.123f;
  arrays.weights = state->w.data();
  arrays.new_weights = state->out.data();
  arrays.slots = slots;
  arrays.end = static_cast<int64_t>(state->w.size());
  element_loops::Update(rules.adam, arrays);
  std::swap(state->w, state->out);
  arrays.weights = state->w.data();
  arrays.new_weights = state->out.data();
  element_loops::Update(rules.sgd, arrays);
  std::swap(state->w, state->out);
  arrays.weights = state->w.data();
  arrays.new_weights = state->out.data();
  element_loops::Update(rules.lion, arrays);
  std::swap(state->w, state->out);
  // A mean square is not negative.
  state->m = state->v;
  arrays.weights = state->w.data();
  arrays.new_weights = state->out.data();
  element_loops::Update(rules.adadelta, arrays);
  std::swap(state->w, state->out);
}

__attribute__((noinline)) void Baseline(const float* g, const Rules& rules,
                                        State* state) {
  UpdateByAll(g, rules, state);
}

__attribute__((target("avx2,fma"), noinline)) void Avx2(const float* g,
                                                        const Rules& rules,
                                                        State* state) {
  UpdateByAll(g, rules, state);
}

__attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,fma"), noinline)) void
Avx512(const float* g, const Rules& rules, State* state) {
  UpdateByAll(g, rules, state);
}

TEST(OptimizerTest, HasTheSameBitsOnEveryInstructionSet) {
  constexpr int kCount = 1003;
  const auto run = [](auto kernel) {
    State state = {Random(kCount, 1), std::vector<float>(kCount),
                   std::vector<float>(kCount), std::vector<float>(kCount)};
    for (int step = 0; step < 5; ++step) {
      const std::vector<float> g = Random(kCount, 10 + step);
      kernel(g.data(), Rules(), &state);
    }
    for (const float w : state.w) EXPECT_TRUE(std::isfinite(w));
    return state;
  };
  const State expected = run(Baseline);
  const auto expect_same = [&](const State& state) {
    EXPECT_EQ(state.w, expected.w);
    EXPECT_EQ(state.m, expected.m);
    EXPECT_EQ(state.v, expected.v);
  };
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    expect_same(run(Avx2));
  }
  if (__builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512cd")) {
    expect_same(run(Avx512));
  }
}

}  // namespace
}  // namespace tributary
