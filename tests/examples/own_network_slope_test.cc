// The layer of examples/cpp/own_network.
#include <memory>
#include <vector>

#include "examples/cpp/own_network/slope.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;

TEST(SlopeTest, ComputesItsFormula) {
  const std::unique_ptr<Device> device = CreateCpuDevice();
  const Slope layer(/*size=*/2);
  const std::vector<float> x = {1, -2, -4, 8};
  const std::vector<float> slope = {0.5f, 0.25f};
  std::vector<float> y(4);
  LayerCall call;
  call.device = device.get();
  call.samples = 2;
  LayerTensors tensors;
  tensors.inputs[0] = AsReals(x.data());
  tensors.weights[0] = slope.data();
  tensors.output = AsReals(y.data());
  layer.Forward(call, tensors);
  EXPECT_THAT(y, ElementsAre(1, -0.5f, -2, 8));

  const std::vector<float> dy = {1, 2, 3, 4};
  std::vector<float> dx(4);
  std::vector<float> dslope(2);
  tensors.output_gradient = AsReals(dy.data());
  tensors.input_gradients[0] = AsReals(dx.data());
  tensors.weight_gradients[0] = dslope.data();
  layer.Backward(call, tensors);
  EXPECT_THAT(dx, ElementsAre(1, 0.5f, 1.5f, 4));
  EXPECT_THAT(dslope, ElementsAre(-12, -4));
}

}  // namespace
}  // namespace tributary
