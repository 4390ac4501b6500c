// What layer_test cannot see of batch norm: running statistics.
#include "worker/nn/layers/batch_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "worker/device/reals.h"

namespace tributary {
namespace {

// One channel of two samples with two pixels each: mean 2.5, biased variance
// 1.25, unbiased 5/3.
constexpr float kInput[] = {1, 2, 3, 4};
constexpr double kMean = 2.5, kVariance = 1.25;

class BatchNormTest : public testing::Test {
 protected:
  BatchNormTest() {
    call_.device = device_.get();
    call_.samples = 2;
    call_.sample_count = 6;
    tensors_.inputs[0] = AsReals(kInput);
    tensors_.output = AsReals(output_);
    tensors_.saved = saved_;
    tensors_.output_gradient = AsReals(output_gradient_);
    tensors_.input_gradients[0] = AsReals(input_gradient_);
    for (int i = 0; i < 4; ++i) {
      tensors_.weights[i] = &weights_[i];
      tensors_.weight_gradients[i] = &gradients_[i];
    }
  }

  const std::unique_ptr<Device> device_ = CreateCpuDevice();
  const BatchNorm layer_{{/*channels=*/1, /*pixels=*/2}};
  LayerCall call_;
  LayerTensors tensors_;
  float output_[4], saved_[2], output_gradient_[4] = {}, input_gradient_[4];
  // Scale, shift, running mean and variance.
  float weights_[4] = {2, 1, 0.5f, 3}, gradients_[4];
};

TEST_F(BatchNormTest, LeadsRunningStatisticsToTheMicroBatches) {
  call_.training = true;
  layer_.Forward(call_, tensors_);
  layer_.Backward(call_, tensors_);
  EXPECT_FLOAT_EQ(gradients_[2], 6 * (0.5 - kMean));
  EXPECT_FLOAT_EQ(gradients_[3], 6 * (3 - kVariance * 4 / 3));
}

TEST_F(BatchNormTest, WithoutSamplesThatCountStatisticsStay) {
  call_.training = true;
  call_.sample_count = 0;
  layer_.Forward(call_, tensors_);
  layer_.Backward(call_, tensors_);
  EXPECT_EQ(gradients_[2], 0);
  EXPECT_EQ(gradients_[3], 0);
}

TEST_F(BatchNormTest, TakesRunningStatisticsInEvaluationOnly) {
  layer_.Forward(call_, tensors_);
  for (int i = 0; i < 4; ++i) {
    EXPECT_NEAR(output_[i], (kInput[i] - 0.5) / std::sqrt(3.00001) * 2 + 1,
                1e-6);
  }
  call_.training = true;
  layer_.Forward(call_, tensors_);
  for (int i = 0; i < 4; ++i) {
    EXPECT_NEAR(output_[i],
                (kInput[i] - kMean) / std::sqrt(kVariance + 1e-5) * 2 + 1,
                1e-6);
  }
}

TEST_F(BatchNormTest, PutsStatisticsIntoTheirOwnGroup) {
  const std::vector<ParameterSpec> parameters = layer_.Spec().parameters;
  ASSERT_EQ(parameters.size(), 4u);
  EXPECT_EQ(parameters[1].group, ParameterGroup::kNoDecay);
  EXPECT_EQ(parameters[2].group, ParameterGroup::kStatistics);
  EXPECT_EQ(parameters[3].group, ParameterGroup::kStatistics);
  EXPECT_EQ(parameters[3].name, "running_var");
  EXPECT_EQ(parameters[3].initializer.scale, 1);
}

}  // namespace
}  // namespace tributary
