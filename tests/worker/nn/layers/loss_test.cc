// Every loss against float64, and its gradient against central differences
// evaluated in float64.
#include "worker/nn/layers/loss.h"

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "common/numerics/normal_quantile.h"
#include "gtest/gtest.h"
#include "tests/worker/device/reference.h"
#include "worker/device/reals.h"
#include "worker/nn/layers/initializer.h"

namespace tributary {
namespace {

using Numbers = std::vector<double>;

// As in layer_test.cc.
constexpr double kStep = 1e-5;
constexpr double kLossTolerance = 1e-5;

// Returns normal numbers.
Numbers LossRandomValues(uint32_t purpose, int64_t size) {
  const RandomStream stream{3, RandomPurpose::kSampleOrder, 0, purpose};
  Numbers values(size);
  for (int64_t i = 0; i < size; ++i) {
    values[i] = static_cast<float>(NormalQuantile(stream.Block(i / 4)[i % 4]));
  }
  return values;
}

class LossTest : public testing::Test {
 protected:
  // Gradient of `objective` at `x` by central differences.
  static void ExpectGradient(
      const std::function<double(const Numbers&)>& objective, Numbers x,
      const std::vector<float>& gradient) {
    for (size_t i = 0; i < x.size(); ++i) {
      const double kept = x[i];
      x[i] = kept + kStep;
      const double above = objective(x);
      x[i] = kept - kStep;
      const double below = objective(x);
      x[i] = kept;
      EXPECT_NEAR(gradient[i], (above - below) / (2 * kStep), kLossTolerance);
    }
  }

  const std::unique_ptr<Device> device_ = CreateCpuDevice();
};

TEST_F(LossTest, CrossEntropyAndItsGradient) {
  const LossSpec spec{LossSpec::Kind::kSoftmaxCrossEntropy, 2, 5};
  const Numbers x = LossRandomValues(1, 3 * 2 * 5);
  const std::vector<float> logits(x.begin(), x.end());
  const std::vector<int32_t> labels = {0, 4, 2, 2, 1, 3};
  const auto objective = [&](const Numbers& values) {
    return reference::SoftmaxCrossEntropy(6, 5, values, labels);
  };
  std::vector<float> gradient(x.size());
  const Loss loss = ComputeLoss(device_.get(), spec, 3, AsReals(logits.data()),
                                labels.data(), AsReals(gradient.data()))
                        .value();
  EXPECT_NEAR(loss.sum, objective(x), 1e-6 * loss.sum);
  ExpectGradient(objective, x, gradient);
  EXPECT_EQ(spec.TargetElements(), 2);
}

TEST_F(LossTest, SquaredErrorAndItsGradient) {
  const LossSpec spec{LossSpec::Kind::kMeanSquaredError, 1, 4};
  const Numbers x = LossRandomValues(1, 3 * 4),
                target = LossRandomValues(2, 3 * 4);
  const std::vector<float> outputs(x.begin(), x.end());
  const std::vector<float> targets(target.begin(), target.end());
  const auto objective = [&](const Numbers& values) {
    return reference::MeanSquaredError(3, 4, values, target);
  };
  std::vector<float> gradient(x.size());
  const Loss loss = ComputeLoss(device_.get(), spec, 3, AsReals(outputs.data()),
                                targets.data(), AsReals(gradient.data()))
                        .value();
  EXPECT_NEAR(loss.sum, objective(x), 1e-6 * loss.sum);
  EXPECT_EQ(loss.correct, 0);
  ExpectGradient(objective, x, gradient);
  EXPECT_EQ(spec.TargetElements(), 4);
}

TEST_F(LossTest, MeanSquaredErrorOfOneNumberIsTheDefault) {
  const LossSpec spec = LossSpec::MeanSquaredError();
  EXPECT_EQ(spec.TargetElements(), 1);
  EXPECT_FALSE(spec.HasLabels());
  const std::vector<float> x = {3, -1}, target = {1, 1};
  std::vector<float> gradient(2);
  const Loss loss = ComputeLoss(device_.get(), spec, 2, AsReals(x.data()),
                                target.data(), AsReals(gradient.data()))
                        .value();
  EXPECT_EQ(loss.sum, 8);
  EXPECT_EQ(loss.counted, 2);
  EXPECT_EQ(gradient, (std::vector<float>{4, -4}));
}

TEST_F(LossTest, BinaryCrossEntropyAndItsGradient) {
  const LossSpec spec = LossSpec::BinaryCrossEntropy();
  EXPECT_EQ(spec.TargetElements(), 1);
  const Numbers x = LossRandomValues(1, 6);
  const std::vector<float> logits(x.begin(), x.end());
  const std::vector<int32_t> labels = {0, 1, -1, 1, 0, 1};
  const auto objective = [&](const Numbers& values) {
    return reference::BinaryCrossEntropy(values, labels);
  };
  std::vector<float> gradient(x.size());
  const Loss loss = ComputeLoss(device_.get(), spec, 6, AsReals(logits.data()),
                                labels.data(), AsReals(gradient.data()))
                        .value();
  EXPECT_NEAR(loss.sum, objective(x), 1e-6 * loss.sum);
  EXPECT_EQ(loss.counted, 5);
  EXPECT_EQ(spec.CountedRows(6, labels.data()), 5);
  ExpectGradient(objective, x, gradient);
}

// The sum of |x - value| over the two predictions of each sample.
class AbsoluteError final : public LossFunction {
 public:
  Targets targets() const override { return Targets::kValues; }
  Sums Compute(const Arguments& args) const override {
    Sums sums;
    for (int64_t i = 0; i < 2 * args.samples; ++i) {
      const double error = static_cast<double>(args.x[i]) - args.values[i / 2];
      sums.loss += std::abs(error);
      if (args.gradient != nullptr) args.gradient[i] = error > 0 ? 1 : -1;
    }
    return sums;
  }
};

TEST_F(LossTest, AFunctionOfTheProgramIsCalledWithItsTargets) {
  const LossSpec spec =
      LossSpec::Function(std::make_shared<AbsoluteError>(), /*width=*/2);
  EXPECT_EQ(spec.TargetElements(), 1);
  EXPECT_FALSE(spec.HasLabels());
  const std::vector<float> x = {1, 2, 3, 4}, values = {2, 2.5f};
  std::vector<float> gradient(4);
  Loss loss = ComputeLoss(device_.get(), spec, 2, AsReals(x.data()),
                          values.data(), AsReals(gradient.data()))
                  .value();
  EXPECT_EQ(loss.sum, 1 + 0 + 0.5 + 1.5);
  EXPECT_EQ(loss.counted, 2);
  EXPECT_EQ(gradient, (std::vector<float>{-1, -1, 1, 1}));
  loss = ComputeLoss(device_.get(), spec, 1, AsReals(x.data()), values.data(),
                     nullptr)
             .value();
  EXPECT_EQ(loss.sum, 1);
}

}  // namespace
}  // namespace tributary
