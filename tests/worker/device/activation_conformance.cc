// The activation functions of ElementwiseOps in the DeviceConformanceTest
// suite, except RELU and GELU (elementwise_conformance.cc).
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "tests/worker/device/device_conformance.h"
#include "tests/worker/device/reference.h"

namespace tributary {
namespace {

constexpr float kAlpha = 0.3f;

struct ActivationCase {
  const char* name;
  void (ElementwiseOps::*forward)(const ElementwiseOps::MapArguments&);
  void (ElementwiseOps::*backward)(const ElementwiseOps::GradientArguments&);
  std::function<double(double)> reference;
  bool at_output = false;  // Backward reads the output, not the input.
};

std::vector<ActivationCase> Activations() {
  return {
      {"Tanh", &ElementwiseOps::TanhForward, &ElementwiseOps::TanhBackward,
       [](double x) { return std::tanh(x); }, /*at_output=*/true},
      {"ExactGelu", &ElementwiseOps::ExactGeluForward,
       &ElementwiseOps::ExactGeluBackward, &reference::ExactGelu},
      {"Sigmoid", &ElementwiseOps::SigmoidForward,
       &ElementwiseOps::SigmoidBackward, &reference::Sigmoid,
       /*at_output=*/true},
      {"Silu", &ElementwiseOps::SiluForward, &ElementwiseOps::SiluBackward,
       &reference::Silu},
      {"LeakyRelu", &ElementwiseOps::LeakyReluForward,
       &ElementwiseOps::LeakyReluBackward,
       [](double x) { return reference::LeakyRelu(x, kAlpha); }},
      {"Elu", &ElementwiseOps::EluForward, &ElementwiseOps::EluBackward,
       [](double x) { return reference::Elu(x, kAlpha); }},
      {"Softplus", &ElementwiseOps::SoftplusForward,
       &ElementwiseOps::SoftplusBackward, &reference::Softplus},
  };
}

TEST_P(DeviceConformanceTest, ActivationsAndTheirGradientsMatchReference) {
  for (const ActivationCase& activation : Activations()) {
    for (const int64_t count : {1, 3, 17, 255, 4099}) {
      SCOPED_TRACE(std::string(activation.name) + " of " +
                   std::to_string(count));
      Floats x = Random(count, 1);
      // Away from 0, where LeakyRelu and Elu have no derivative.
      for (float& value : x) value = 8 * value + (value < 0 ? -0.01f : 0.01f);
      x = Rounded(*device_, x);
      const Floats dy = Random(count, 2);
      Doubles expected;
      for (const float value : x)
        expected.push_back(activation.reference(value));
      auto y = OutputReals(count), dx = OutputReals(count);
      ElementwiseOps& ops = *device_->ops().elementwise;
      (ops.*activation.forward)({count, UploadReals(x), y, kAlpha});
      ExpectRealsNear(y, expected, 10 * kEpsilon * 8);
      auto in_place = UploadReals(x);
      (ops.*activation.forward)({count, in_place, in_place, kAlpha});
      EXPECT_EQ(in_place.Download(), y.Download());

      const auto at = UploadReals(activation.at_output ? y.Download() : x);
      (ops.*activation.backward)({count, at, UploadReals(dy), dx, kAlpha});
      // A rounded output yields the derivative at another point.
      const double rounded = activation.at_output ? 2 * RealEpsilon() : 0;
      ExpectGradient(
          [&](const Doubles& v) {
            double sum = 0;
            for (int64_t i = 0; i < count; ++i) {
              sum += dy[i] * activation.reference(v[i]);
            }
            return sum;
          },
          ToDoubles(x), dx.Download(), 3e-6 + rounded, RealEpsilon());
      auto gradient = UploadReals(dy);
      (ops.*activation.backward)({count, at, gradient, gradient, kAlpha});
      EXPECT_EQ(gradient.Download(), dx.Download());
    }
  }
}

TEST_P(DeviceConformanceTest, ActivationsOfExtremeInputs) {
  const Floats x = Rounded(*device_, {-1e4f, -100, -30, 30, 100, 1e4f});
  const auto count = static_cast<int64_t>(x.size());
  for (const ActivationCase& activation : Activations()) {
    SCOPED_TRACE(activation.name);
    Doubles expected;
    for (const float value : x) expected.push_back(activation.reference(value));
    ElementwiseOps& ops = *device_->ops().elementwise;
    auto y = OutputReals(count), dx = OutputReals(count);
    (ops.*activation.forward)({count, UploadReals(x), y, kAlpha});
    ExpectRealsNear(y, expected, 1e-3);
    const auto at = UploadReals(activation.at_output ? y.Download() : x);
    (ops.*activation.backward)(
        {count, at, UploadReals(Floats(count, 1)), dx, kAlpha});
    for (const float value : dx.Download()) {
      EXPECT_TRUE(std::isfinite(value)) << value;
      EXPECT_LE(std::abs(value), 1);
    }
  }
}

TEST_P(DeviceConformanceTest, AllActivationsPassNotANumber) {
  Floats x = Random(65, 1);
  for (const size_t i : {0, 20, 64}) {
    x[i] = std::numeric_limits<float>::quiet_NaN();
  }
  for (const ActivationCase& activation : Activations()) {
    SCOPED_TRACE(activation.name);
    auto y = OutputReals(65);
    ((*device_->ops().elementwise).*
     activation.forward)({65, UploadReals(x), y, kAlpha});
    const Floats result = y.Download();
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_EQ(std::isnan(result[i]), std::isnan(x[i])) << i;
    }
  }
}

}  // namespace
}  // namespace tributary
