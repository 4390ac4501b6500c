// Against the formulas of proto/job.proto, written out in double precision.
#include "worker/training/local_sgd.h"

#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "common/job/job.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

// Gradients and weights are of order 1, steps of order 0.1; a few dozen float32
// roundings of those.
constexpr double kTolerance = 2e-6;

JobSpec Job(const std::string& text) {
  const absl::StatusOr<JobSpec> job = ParseJob(text, "job");
  EXPECT_TRUE(job.ok()) << job.status();
  return *job;
}

// A matrix of 5 x 7 and a bias of 3 elements in chunks of 16: several chunks,
// with gaps behind both parameters.
ArenaLayout Layout() {
  ParameterTable table;
  table.set_chunk_elements(16);
  auto* matrix = table.add_parameter();
  matrix->set_name("matrix");
  matrix->add_shape(5);
  matrix->add_shape(7);
  matrix->set_group(DECAY);
  auto* bias = table.add_parameter();
  bias->set_name("bias");
  bias->add_shape(3);
  bias->set_group(NO_DECAY);
  return *ArenaLayout::Create(table);
}

constexpr int64_t kMatrixEnd = 35;
constexpr int64_t kBiasBegin = 48;
constexpr int64_t kBiasEnd = 51;

bool IsGap(int64_t i) {
  return (i >= kMatrixEnd && i < kBiasBegin) || i >= kBiasEnd;
}

std::vector<float> RandomArena(uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> arena(Layout().arena_elements());
  for (size_t i = 0; i < arena.size(); ++i) {
    arena[i] = IsGap(static_cast<int64_t>(i)) ? 0 : normal(random);
  }
  return arena;
}

// One micro-batch's round in double precision.
class Reference {
 public:
  explicit Reference(const std::vector<float>& start)
      : start_(start.begin(), start.end()),
        weights_(start_),
        first_(start.size()),
        second_(start.size()) {}

  std::vector<double> Mean(const std::vector<float>& sum, int64_t sample_count,
                           double clip_norm) const {
    std::vector<double> mean(sum.begin(), sum.end());
    double squares = 0;
    for (double& g : mean) {
      g /= static_cast<double>(sample_count);
      squares += g * g;
    }
    const double norm = std::sqrt(squares);
    if (clip_norm > 0 && norm > clip_norm) {
      for (double& g : mean) g *= clip_norm / norm;
    }
    return mean;
  }

  void Nesterov(const std::vector<double>& g, double rate, double momentum,
                double decay) {
    for (size_t i = 0; i < g.size(); ++i) {
      const double decayed =
          g[i] +
          (static_cast<int64_t>(i) < kMatrixEnd ? decay : 0) * weights_[i];
      first_[i] = momentum * first_[i] + decayed;
      weights_[i] -= rate * (decayed + momentum * first_[i]);
    }
  }

  // `t`: counted from 1, in the round.
  void AdamW(const std::vector<double>& g, double rate, double decay, int t) {
    for (size_t i = 0; i < g.size(); ++i) {
      if (IsGap(static_cast<int64_t>(i))) continue;
      first_[i] = 0.9 * first_[i] + 0.1 * g[i];
      second_[i] = 0.99 * second_[i] + 0.01 * g[i] * g[i];
      if (static_cast<int64_t>(i) < kMatrixEnd) {
        weights_[i] -= rate * decay * weights_[i];
      }
      weights_[i] -= rate * (first_[i] / (1 - std::pow(0.9, t))) /
                     (std::sqrt(second_[i] / (1 - std::pow(0.99, t))) + 1e-8);
    }
  }

  double outer(size_t i, int64_t sample_count) const {
    return static_cast<double>(sample_count) * (start_[i] - weights_[i]);
  }
  double weights(size_t i) const { return weights_[i]; }

 private:
  std::vector<double> start_;
  std::vector<double> weights_;
  std::vector<double> first_;
  std::vector<double> second_;
};

void ExpectNear(const float* actual, int64_t count,
                const std::function<double(size_t)>& expected, double scale) {
  for (int64_t i = 0; i < count; ++i) {
    ASSERT_NEAR(actual[i], expected(i), kTolerance * scale) << i;
  }
}

TEST(LocalSgdTest, TakesStepsWithMomentumScheduleAndClipping) {
  const ArenaLayout layout = Layout();
  // Mean gradients are sqrt(38) / weight long: one of the three is clipped.
  const JobSpec job =
      Job("optimizer { sgd { learning_rate: 0.1 momentum: 0.8 nesterov: true "
          "weight_decay: 0.01 } } clip_norm: 3 schedule { decay: LINEAR }");
  auto local_sgd = *LocalSgd::Create(job, /*steps=*/10, &layout);
  const std::vector<float> start = RandomArena(1);
  Reference reference(start);
  local_sgd->Begin(start.data(), /*first_step=*/4);
  EXPECT_EQ(local_sgd->weights(), start.data());
  int64_t total = 0;
  for (int i = 0; i < 3; ++i) {
    const int64_t sample_count = 1 + i * 2;
    const std::vector<float> gradient = RandomArena(10 + i);
    EXPECT_EQ(local_sgd->step(), 4 + i);
    local_sgd->Step(gradient.data(), sample_count);
    reference.Nesterov(reference.Mean(gradient, sample_count, 3),
                       0.1 * (10 - 4 - i) / 10, 0.8, 0.01);
    total += sample_count;
  }
  EXPECT_EQ(local_sgd->total_sample_count(), total);
  ExpectNear(
      local_sgd->weights(), layout.arena_elements(),
      [&](size_t i) { return reference.weights(i); }, 1);
  std::vector<float> outer(layout.arena_elements());
  local_sgd->OuterGradient(outer.data());
  ExpectNear(
      outer.data(), layout.arena_elements(),
      [&](size_t i) { return reference.outer(i, total); }, total);
}

TEST(LocalSgdTest, BeginsTheOptimizerAnewInEachRound) {
  const ArenaLayout layout = Layout();
  const JobSpec job = Job(
      "optimizer { adamw { learning_rate: 0.01 beta2: 0.99 weight_decay: 0.1 } "
      "}");
  auto local_sgd = *LocalSgd::Create(job, /*steps=*/100, &layout);
  for (int round = 0; round < 3; ++round) {
    const std::vector<float> start = RandomArena(round);
    Reference reference(start);
    local_sgd->Begin(start.data(), round * 5);
    for (int i = 0; i < 5; ++i) {
      const std::vector<float> gradient = RandomArena(10 * round + i + 3);
      local_sgd->Step(gradient.data(), 4);
      reference.AdamW(reference.Mean(gradient, 4, 0), 0.01, 0.1, i + 1);
    }
    EXPECT_EQ(local_sgd->total_sample_count(), 20);
    ExpectNear(
        local_sgd->weights(), layout.arena_elements(),
        [&](size_t i) { return reference.weights(i); }, 1);
  }
}

// Two workers of a pipeline, which update chunks 0 and 1, and the others. The
// second one reads element 20, which the first one updates.
TEST(LocalSgdTest, WorkersUpdateTheirChunks) {
  const ArenaLayout layout = Layout();
  const JobSpec job = Job(
      "optimizer { adamw { learning_rate: 0.01 weight_decay: 0.1 } } schedule "
      "{ decay: LINEAR }");
  auto whole = *LocalSgd::Create(job, /*steps=*/10, &layout);
  auto first = *LocalSgd::Create(job, /*steps=*/10, &layout, /*pin=*/nullptr,
                                 /*begin_chunk=*/0, /*end_chunk=*/2);
  auto second = *LocalSgd::Create(job, /*steps=*/10, &layout, /*pin=*/nullptr,
                                  /*begin_chunk=*/2);
  const int64_t middle = 2 * layout.chunk_elements();
  for (int round = 0; round < 2; ++round) {
    const std::vector<float> start = RandomArena(round);
    for (LocalSgd* const one : {whole.get(), first.get(), second.get()}) {
      one->Begin(start.data(), /*first_step=*/3 * round);
      EXPECT_EQ(one->updates(), 0);
    }
    for (int i = 0; i < 3; ++i) {
      const std::vector<float> gradient = RandomArena(10 + 3 * round + i);
      const int64_t samples = i == 1 ? 0 : 4;
      for (LocalSgd* const one : {whole.get(), first.get(), second.get()}) {
        one->Step(gradient.data(), samples);
      }
      second->Replace(20, {first->weights() + 20, 1});
      EXPECT_EQ(second->weights()[20], whole->weights()[20]);
    }
    EXPECT_EQ(first->updates(), 2);
    std::vector<float> outer(layout.arena_elements(), 7);
    std::vector<float> parts(layout.arena_elements(), 7);
    whole->OuterGradient(outer.data());
    first->OuterGradient(parts.data());
    EXPECT_EQ(parts[middle], 7);
    second->OuterGradient(parts.data());
    EXPECT_EQ(parts, outer);
  }
}

TEST(LocalSgdTest, StatisticsFollowWithoutOptimizerAndClipping) {
  ParameterTable table;
  table.set_chunk_elements(16);
  for (const OptimizerGroup group : {DECAY, STATISTICS}) {
    auto* parameter = table.add_parameter();
    parameter->set_name(OptimizerGroup_Name(group));
    parameter->add_shape(2);
    parameter->set_group(group);
  }
  const ArenaLayout layout = *ArenaLayout::Create(table);
  const JobSpec job =
      Job("optimizer { sgd { learning_rate: 0.5 momentum: 0 } } clip_norm: 1");
  auto local_sgd = *LocalSgd::Create(job, /*steps=*/10, &layout);
  const std::vector<float> start(layout.arena_elements(), 0);
  std::vector<float> sum(start);
  // The mean gradient of 4 samples is (3, 4): its norm is 5.
  sum[0] = 12, sum[1] = 16, sum[16] = 4000, sum[17] = -8000;
  local_sgd->Begin(start.data(), /*first_step=*/0);
  local_sgd->Step(sum.data(), /*sample_count=*/4);
  EXPECT_NEAR(local_sgd->weights()[0], -0.5 * 3 / 5, 1e-6);
  EXPECT_NEAR(local_sgd->weights()[1], -0.5 * 4 / 5, 1e-6);
  EXPECT_FLOAT_EQ(local_sgd->weights()[16], -100);
  EXPECT_FLOAT_EQ(local_sgd->weights()[17], 200);
}

TEST(LocalSgdTest, AStepWithoutSamplesMovesNothingButCounts) {
  const ArenaLayout layout = Layout();
  const JobSpec job =
      Job("optimizer { adam { learning_rate: 0.01 weight_decay: 0.1 } }");
  auto with = *LocalSgd::Create(job, /*steps=*/10, &layout);
  auto without = *LocalSgd::Create(job, /*steps=*/10, &layout);
  const std::vector<float> start = RandomArena(1);
  const std::vector<float> gradient = RandomArena(2);
  const std::vector<float> zero(start.size());
  with->Begin(start.data(), 0);
  with->Step(zero.data(), 0);
  EXPECT_EQ(with->weights(), start.data());
  EXPECT_EQ(with->step(), 1);
  with->Step(gradient.data(), 2);
  without->Begin(start.data(), 1);
  without->Step(gradient.data(), 2);
  for (size_t i = 0; i < start.size(); ++i) {
    ASSERT_EQ(with->weights()[i], without->weights()[i]);
  }
}

TEST(LocalSgdTest, NothingButZeroComesOfARoundWithoutSamples) {
  const ArenaLayout layout = Layout();
  const JobSpec job = Job("optimizer { sgd { learning_rate: 0.01 } }");
  auto local_sgd = *LocalSgd::Create(job, /*steps=*/10, &layout);
  const std::vector<float> start = RandomArena(1);
  local_sgd->Begin(start.data(), 0);
  local_sgd->Step(start.data(), 0);
  std::vector<float> outer(start.size(), 7);
  local_sgd->OuterGradient(outer.data());
  for (const float value : outer) EXPECT_EQ(value, 0);
}

}  // namespace
}  // namespace tributary
