#include "common/sparse/row_rule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/base/buffer_pool.h"

namespace tributary {
namespace {

std::vector<float> RandomValues(int count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// Against the formula of FBGEMM's and torchrec's EXACT_ROWWISE_ADAGRAD, in
// float64.
TEST(RowRuleTest, RowWiseAdagradFollowsItsFormula) {
  for (const int dim : {1, 7, 16, 33, 64}) {
    SparseTableSpec spec;
    spec.mutable_row_wise_adagrad()->set_learning_rate(0.1);
    spec.mutable_row_wise_adagrad()->set_weight_decay(0.02);
    spec.mutable_row_wise_adagrad()->set_rate_decay(0.1);
    const RowRule rule = RowRule::Create(spec).value();
    ASSERT_EQ(rule.StateElements(dim), 1);
    std::vector<float> values = RandomValues(dim, 1);
    std::vector<double> wanted(values.begin(), values.end());
    // Whole lines of the cache are stored in another way.
    const Buffer memory = AllocateBuffer(dim + 1);
    float state = 0;
    double sum = 0;
    for (int step = 0; step < 20; ++step) {
      const std::vector<float> gradient = RandomValues(dim, 2 + step);
      const std::vector<float> old = values;
      float* const before = memory.get() + step % 2;
      rule.At(step, /*gradient_scale=*/0.25f, /*rate_factor=*/0.5)
          .Update(gradient.data(), dim, values.data(), &state, before);
      RowStep::Finish();
      EXPECT_EQ(std::vector<float>(before, before + dim), old);
      double squares = 0;
      std::vector<double> d(dim);
      for (int i = 0; i < dim; ++i) {
        d[i] = gradient[i] * 0.25 + 0.02 * wanted[i];
        squares += d[i] * d[i];
      }
      sum += squares / dim;
      const double rate = 0.1 * 0.5 / (1 + step * 0.1);
      for (int i = 0; i < dim; ++i) {
        wanted[i] -= rate / (std::sqrt(sum) + 1e-10) * d[i];
        EXPECT_NEAR(values[i], wanted[i], 1e-5 * (1 + std::abs(wanted[i])));
      }
      EXPECT_NEAR(state, sum, 1e-5 * sum);
    }
  }
}

// The rules of elements have the bits of the optimizers of dense parameters.
TEST(RowRuleTest, ElementsAreThoseOfTheOptimizer) {
  constexpr int kDim = 21;
  for (const std::string name : {"adagrad", "sgd", "adam", "adamw"}) {
    SCOPED_TRACE(name);
    SparseTableSpec spec;
    OptimizerSpec dense;
    if (name == "adagrad") {
      spec.mutable_adagrad()->set_learning_rate(0.1);
      *dense.mutable_adagrad() = spec.adagrad();
    } else if (name == "sgd") {
      spec.mutable_sgd()->set_learning_rate(0.1);
      spec.mutable_sgd()->set_momentum(0);
      *dense.mutable_sgd() = spec.sgd();
    } else if (name == "adam") {
      spec.mutable_adam()->set_learning_rate(0.1);
      *dense.mutable_adam() = spec.adam();
    } else {
      spec.mutable_adamw()->set_learning_rate(0.1);
      spec.mutable_adamw()->set_weight_decay(0.1);
      *dense.mutable_adamw() = spec.adamw();
    }
    const RowRule rule = RowRule::Create(spec).value();
    const auto optimizer = Optimizer::Create(dense).value();
    ASSERT_EQ(rule.StateElements(kDim), optimizer->slots() * kDim);
    std::vector<float> values = RandomValues(kDim, 1), wanted = values;
    std::vector<float> state(rule.StateElements(kDim)), wanted_state = state;
    std::vector<float> before(kDim), next(kDim);
    for (int step = 0; step < 5; ++step) {
      const std::vector<float> gradient = RandomValues(kDim, 2 + step);
      rule.At(step, 0.5f, /*rate_factor=*/2)
          .Update(gradient.data(), kDim, values.data(), state.data(),
                  before.data());
      UpdateStep update;
      update.gradient_scale = 0.5f;
      update.learning_rate = 0.2;
      update.number = step;
      std::vector<float*> slots;
      for (int i = 0; i < optimizer->slots(); ++i) {
        slots.push_back(wanted_state.data() + i * kDim);
      }
      const ChunkSegment segment = {0, kDim, DECAY, 1};
      UpdateArguments arguments;
      arguments.gradient_sum = gradient.data();
      arguments.weights = wanted.data();
      arguments.new_weights = next.data();
      arguments.slots = slots;
      arguments.segments = absl::MakeConstSpan(&segment, 1);
      optimizer->At(update).Update(arguments);
      wanted.swap(next);
      ASSERT_EQ(values, wanted);
      ASSERT_EQ(state, wanted_state);
    }
  }
}

TEST(RowRuleTest, RefusesWrongOptions) {
  SparseTableSpec spec;
  EXPECT_EQ(RowRule::Create(spec).status().code(),
            absl::StatusCode::kInvalidArgument);
  spec.mutable_row_wise_adagrad()->set_learning_rate(-1);
  EXPECT_EQ(RowRule::Create(spec).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tributary
