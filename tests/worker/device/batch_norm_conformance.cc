// Batch norm.
#include <cmath>
#include <limits>

#include "tests/worker/device/device_conformance.h"
#include "tests/worker/device/reference.h"

namespace tributary {
namespace {

std::vector<BatchNormShape> BatchNormShapes() {
  std::vector<BatchNormShape> shapes;
  for (const bool relu : {false, true}) {
    for (const BatchNormShape& s :
         {BatchNormShape{2, 1, 1}, BatchNormShape{5, 70, 1},
          BatchNormShape{3, 65, 16}, BatchNormShape{3, 5, 49},
          BatchNormShape{1, 2, 1030}, BatchNormShape{4, 3, 256}}) {
      shapes.push_back(s);
      shapes.back().relu = relu;
    }
  }
  return shapes;
}

std::string Name(const BatchNormShape& s) {
  return std::to_string(s.batch) + " x " + std::to_string(s.channels) + " x " +
         std::to_string(s.pixels) + (s.relu ? ", max(., 0)" : "");
}

// A mean far from 0 shows variances that cancel.
struct BatchNormTensors {
  BatchNormTensors(const Device& device, const BatchNormShape& s,
                   float mean = 0)
      : size(s.batch * s.channels * s.pixels),
        x(Rounded(device, Plus(RandomFloats(size, 1), mean))),
        residual(RandomReals(device, size, 2)),
        dy(RandomReals(device, size, 3)),
        scale(RandomFloats(s.channels, 4)),
        shift(RandomFloats(s.channels, 5)) {}
  int64_t size;
  Floats x, residual, dy, scale, shift;
};

Doubles Forward(const BatchNormShape& s, const Doubles& x, const Doubles& scale,
                const Doubles& shift, const Doubles& residual) {
  return reference::BatchNormEvaluate(
      s, x, scale, shift, reference::BatchNormMean(s, x),
      reference::BatchNormVariance(s, x), residual);
}

TEST_P(DeviceConformanceTest, BatchNormForwardNormalizesChannels) {
  for (const BatchNormShape& s : BatchNormShapes()) {
    SCOPED_TRACE(Name(s));
    const BatchNormTensors t(*device_, s, /*mean=*/10);
    const auto residual = UploadReals(t.residual);
    for (const bool adds : {false, true}) {
      auto y = OutputReals(t.size);
      auto mean = Output(s.channels), variance = Output(s.channels);
      device_->ops().batch_norm->Forward(
          {s, UploadReals(t.x), Upload(t.scale), Upload(t.shift),
           adds ? residual.data() : nullptr, y, mean, variance});
      const Doubles x = ToDoubles(t.x);
      // Numbers about 10, added up in runs of a few hundred.
      ExpectNear(mean.Download(), reference::BatchNormMean(s, x),
                 1000 * kEpsilon);
      ExpectNear(variance.Download(), reference::BatchNormVariance(s, x),
                 1000 * kEpsilon);
      // x and its mean round to 10 kEpsilon each, the mean a few times, divided
      // by a deviation of about 1/2 or, of two elements, less.
      ExpectRealsNear(y,
                      Forward(s, x, ToDoubles(t.scale), ToDoubles(t.shift),
                              adds ? ToDoubles(t.residual) : Doubles()),
                      (s.batch * s.pixels < 10 ? 10000 : 1000) * kEpsilon);
    }
  }
}

TEST_P(DeviceConformanceTest, BatchNormOfOneElementIsTheShift) {
  const BatchNormShape s = {1, 3, 1};
  const BatchNormTensors t(*device_, s);
  auto y = OutputReals(3);
  auto mean = Output(3), variance = Output(3);
  device_->ops().batch_norm->Forward({s, UploadReals(t.x), Upload(t.scale),
                                      Upload(t.shift), nullptr, y, mean,
                                      variance});
  EXPECT_EQ(y.Download(), Rounded(*device_, t.shift));
  EXPECT_EQ(mean.Download(), t.x);
  EXPECT_EQ(variance.Download(), Floats(3, 0.0f));
}

TEST_P(DeviceConformanceTest, BatchNormEvaluateUsesGivenStatistics) {
  for (const BatchNormShape& s : BatchNormShapes()) {
    SCOPED_TRACE(Name(s));
    const BatchNormTensors t(*device_, s);
    const Floats mean = Random(s.channels, 6);
    // From 0.01 up; one below 0, which counts as 0.
    Floats variance = Plus(Random(s.channels, 7), 1.01f);
    variance[0] = -0.5f;
    const auto residual = UploadReals(t.residual);
    for (const bool adds : {false, true}) {
      auto y = OutputReals(t.size);
      device_->ops().batch_norm->Evaluate(
          {s, UploadReals(t.x), Upload(t.scale), Upload(t.shift), Upload(mean),
           Upload(variance), adds ? residual.data() : nullptr, y});
      // A few roundings of numbers up to 2 / sqrt(1e-5).
      ExpectRealsNear(
          y,
          reference::BatchNormEvaluate(
              s, ToDoubles(t.x), ToDoubles(t.scale), ToDoubles(t.shift),
              ToDoubles(mean), ToDoubles(variance),
              adds ? ToDoubles(t.residual) : Doubles()),
          5000 * kEpsilon);
    }
  }
}

TEST_P(DeviceConformanceTest, BatchNormKeepsNotANumber) {
  const BatchNormShape s = {2, 1, 20, /*relu=*/true};
  BatchNormTensors t(*device_, s);
  t.x[7] = std::numeric_limits<float>::quiet_NaN();
  auto y = OutputReals(t.size);
  auto mean = Output(1), variance = Output(1);
  device_->ops().batch_norm->Forward({s, UploadReals(t.x), Upload(t.scale),
                                      Upload(t.shift), nullptr, y, mean,
                                      variance});
  for (const float value : y.Download()) EXPECT_TRUE(std::isnan(value));
  const Floats statistics = {std::numeric_limits<float>::quiet_NaN()};
  device_->ops().batch_norm->Evaluate({s, UploadReals(t.dy), Upload(t.scale),
                                       Upload(t.shift), Upload(Floats{0.0f}),
                                       Upload(statistics), nullptr, y});
  for (const float value : y.Download()) EXPECT_TRUE(std::isnan(value));
}

TEST_P(DeviceConformanceTest, BatchNormGradientsMatchFiniteDifferences) {
  for (const BatchNormShape& s : BatchNormShapes()) {
    if (s.batch * s.pixels < 5) continue;  // The gradient is rounding alone.
    SCOPED_TRACE(Name(s));
    BatchNormTensors t(*device_, s, 0.5f);
    // Behind max(., 0) no output may be so near 0 that the differences' step
    // crosses it: the residual moves it away.
    const Doubles x = ToDoubles(t.x), scale = ToDoubles(t.scale),
                  shift = ToDoubles(t.shift);
    BatchNormShape linear = s;
    linear.relu = false;
    const Doubles before =
        Forward(linear, x, scale, shift, ToDoubles(t.residual));
    for (int64_t i = 0; i < t.size; ++i) {
      if (std::abs(before[i]) < 0.05) t.residual[i] += 0.2f;
    }
    t.residual = Rounded(*device_, t.residual);
    const Doubles residual = ToDoubles(t.residual);

    const auto device_x = UploadReals(t.x);
    const auto device_scale = Upload(t.scale);
    auto y = OutputReals(t.size), dresidual = OutputReals(t.size);
    auto mean = Output(s.channels), variance = Output(s.channels),
         dscale = Output(s.channels), dshift = Output(s.channels);
    auto dx = UploadReals(t.dy);  // In the place of dy.
    device_->ops().batch_norm->Forward(
        {s, device_x, device_scale, Upload(t.shift), UploadReals(t.residual), y,
         mean, variance});
    device_->ops().batch_norm->Backward({s, device_x, device_scale, mean,
                                         variance, s.relu ? y.data() : nullptr,
                                         dx, dx, dscale, dshift, dresidual});
    const auto forward = [&](const Doubles& x, const Doubles& scale,
                             const Doubles& shift, const Doubles& residual) {
      return Dot(Forward(s, x, scale, shift, residual), t.dy);
    };
    // Up to a thousand terms; of few, deviations are small and gradients large.
    const double tolerance = s.batch * s.pixels < 10 ? 1e-3 : 1e-4;
    ExpectGradient(
        [&](const Doubles& v) { return forward(v, scale, shift, residual); }, x,
        dx.Download(), tolerance, RealEpsilon());
    ExpectGradient(
        [&](const Doubles& v) { return forward(x, v, shift, residual); }, scale,
        dscale.Download(), tolerance);
    ExpectGradient(
        [&](const Doubles& v) { return forward(x, scale, v, residual); }, shift,
        dshift.Download(), tolerance);
    ExpectGradient(
        [&](const Doubles& v) { return forward(x, scale, shift, v); }, residual,
        dresidual.Download(), 1e-6, RealEpsilon());

    // Without a residual, and not in place: the same bits.
    auto apart = OutputReals(t.size);
    auto scale_apart = Output(s.channels), shift_apart = Output(s.channels);
    device_->ops().batch_norm->Backward({s, device_x, device_scale, mean,
                                         variance, y, UploadReals(t.dy), apart,
                                         scale_apart, shift_apart, nullptr});
    EXPECT_EQ(apart.Download(), dx.Download());
    EXPECT_EQ(scale_apart.Download(), dscale.Download());
    EXPECT_EQ(shift_apart.Download(), dshift.Download());

    // Without the gradient of the input, as in a first layer.
    auto scale_alone = Output(s.channels), shift_alone = Output(s.channels);
    device_->ops().batch_norm->Backward(
        {s, device_x, device_scale, mean, variance, y, UploadReals(t.dy),
         nullptr, scale_alone, shift_alone, nullptr});
    EXPECT_EQ(scale_alone.Download(), dscale.Download());
    EXPECT_EQ(shift_alone.Download(), dshift.Download());
  }
}

TEST_P(DeviceConformanceTest,
       BatchNormStatisticsGradientLeadsToTheMicroBatches) {
  constexpr int64_t kChannels = 19;
  const Floats mean = Random(kChannels, 1),
               variance = Plus(Random(kChannels, 2), 2),
               running_mean = Random(kChannels, 3),
               running_variance = Plus(Random(kChannels, 4), 2);
  for (const int64_t observations : {1, 2, 50}) {
    for (const int64_t sample_count : {0, 3}) {
      auto dmean = Output(kChannels), dvariance = Output(kChannels);
      device_->ops().batch_norm->StatisticsGradient(
          {kChannels, observations, sample_count, Upload(mean),
           Upload(variance), Upload(running_mean), Upload(running_variance),
           dmean, dvariance});
      Doubles expected_mean, expected_variance;
      const double unbiased = observations == 1
                                  ? 1
                                  : static_cast<double>(observations) /
                                        static_cast<double>(observations - 1);
      for (int64_t c = 0; c < kChannels; ++c) {
        expected_mean.push_back(static_cast<double>(sample_count) *
                                (double{running_mean[c]} - mean[c]));
        expected_variance.push_back(
            static_cast<double>(sample_count) *
            (double{running_variance[c]} - unbiased * variance[c]));
      }
      ExpectNear(dmean.Download(), expected_mean, 20 * kEpsilon);
      ExpectNear(dvariance.Download(), expected_variance, 60 * kEpsilon);
    }
  }
}

}  // namespace
}  // namespace tributary
