#include <cmath>

#include "tests/worker/device/device_conformance.h"
#include "tests/worker/device/reference.h"

namespace tributary {
namespace {

using reference::Absolute;

// Out sizes as layers compute them: the last window may leave pixels out.
ConvolutionShape Shape(int64_t batch, int64_t in_channels, int64_t height,
                       int64_t width, int64_t out_channels, int64_t kernel,
                       int64_t stride, int64_t padding) {
  ConvolutionShape s;
  s.batch = batch;
  s.in_channels = in_channels;
  s.in_height = height;
  s.in_width = width;
  s.out_channels = out_channels;
  s.out_height = (height + 2 * padding - kernel) / stride + 1;
  s.out_width = (width + 2 * padding - kernel) / stride + 1;
  s.kernel = kernel;
  s.stride = stride;
  s.padding = padding;
  return s;
}

std::vector<ConvolutionShape> ConvolutionShapes() {
  return {
      Shape(1, 1, 1, 1, 1, 1, 1, 0),    Shape(3, 1, 9, 7, 5, 3, 1, 1),
      Shape(2, 1, 12, 12, 32, 5, 1, 2), Shape(2, 32, 7, 7, 16, 5, 1, 2),
      Shape(1, 3, 17, 17, 17, 3, 2, 1), Shape(2, 16, 8, 6, 33, 1, 1, 0),
      Shape(2, 5, 10, 11, 4, 4, 3, 0),  Shape(1, 16, 9, 9, 32, 3, 2, 0),
      Shape(3, 32, 4, 4, 32, 3, 1, 1),  Shape(1, 1, 28, 28, 8, 5, 1, 2),
      Shape(2, 33, 7, 9, 35, 3, 1, 1),  Shape(1, 40, 17, 16, 64, 3, 1, 1),
  };
}

std::string Name(const ConvolutionShape& s) {
  return std::to_string(s.batch) + " x " + std::to_string(s.in_channels) +
         " x " + std::to_string(s.in_height) + " x " +
         std::to_string(s.in_width) + " -> " + std::to_string(s.out_channels) +
         ", kernel " + std::to_string(s.kernel) + ", stride " +
         std::to_string(s.stride) + ", padding " + std::to_string(s.padding);
}

struct ConvolutionTensors {
  ConvolutionTensors(const Device& device, const ConvolutionShape& s)
      : x(RandomReals(device,
                      s.batch * s.in_channels * s.in_height * s.in_width, 1)),
        weight(RandomReals(
            device, s.out_channels * s.in_channels * s.kernel * s.kernel, 2)),
        bias(RandomFloats(s.out_channels, 3)),
        dy(RandomReals(
            device, s.batch * s.out_channels * s.out_height * s.out_width, 4)) {
  }
  Floats x, weight, bias, dy;
};

// As for a sum of n products, doubled: fast algorithms transform first.
double ConvolutionTolerance(int64_t n) {
  return 2 * static_cast<double>(n + 2) * kEpsilon;
}

TEST_P(DeviceConformanceTest, ConvolutionForwardSlidesKernelsOverImages) {
  for (const ConvolutionShape& s : ConvolutionShapes()) {
    SCOPED_TRACE(Name(s));
    const ConvolutionTensors t(*device_, s);
    for (bool with_bias : {true, false}) {
      auto y = OutputReals(t.dy.size());
      const auto bias = Upload(t.bias);
      device_->ops().convolution->Forward(
          {s, UploadReals(t.x), UploadReals(t.weight),
           with_bias ? bias.data() : nullptr, y});
      const Doubles x = ToDoubles(t.x), weight = ToDoubles(t.weight);
      const Doubles b = with_bias ? ToDoubles(t.bias) : Doubles();
      Doubles limits = reference::ConvolutionForward(
          s, Absolute(x), Absolute(weight), Absolute(b));
      const Doubles sums = reference::ConvolutionForward(s, x, weight, {});
      for (size_t i = 0; i < limits.size(); ++i) {
        limits[i] *= ConvolutionTolerance(s.in_channels * s.kernel * s.kernel);
        // The sum may be rounded before the bias is added.
        if (with_bias) limits[i] += RealEpsilon() * std::abs(sums[i]);
      }
      ExpectRealsNear(y, reference::ConvolutionForward(s, x, weight, b),
                      /*tolerance=*/1, limits);
    }
  }
}

TEST_P(DeviceConformanceTest, ConvolutionBackwardInputMatchesReference) {
  for (const ConvolutionShape& s : ConvolutionShapes()) {
    SCOPED_TRACE(Name(s));
    const ConvolutionTensors t(*device_, s);
    auto dx = OutputReals(t.x.size());
    device_->ops().convolution->BackwardInput(
        {s, UploadReals(t.dy), UploadReals(t.weight), dx});
    const Doubles dy = ToDoubles(t.dy), weight = ToDoubles(t.weight);
    ExpectRealsNear(
        dx, reference::ConvolutionBackwardInput(s, dy, weight),
        ConvolutionTolerance(s.out_channels * s.kernel * s.kernel),
        reference::ConvolutionBackwardInput(s, Absolute(dy), Absolute(weight)));
  }
}

TEST_P(DeviceConformanceTest, ConvolutionBackwardWeightMatchesReference) {
  for (const ConvolutionShape& s : ConvolutionShapes()) {
    SCOPED_TRACE(Name(s));
    const ConvolutionTensors t(*device_, s);
    const Doubles x = ToDoubles(t.x), dy = ToDoubles(t.dy);
    const double tolerance =
        ConvolutionTolerance(s.batch * s.out_height * s.out_width);
    for (bool with_bias : {true, false}) {
      auto dweight = Output(t.weight.size()), dbias = Output(t.bias.size());
      device_->ops().convolution->BackwardWeight(
          {s, UploadReals(t.x), UploadReals(t.dy), dweight,
           with_bias ? dbias.data() : nullptr});
      ExpectNear(
          dweight.Download(), reference::ConvolutionBackwardWeight(s, x, dy),
          tolerance,
          reference::ConvolutionBackwardWeight(s, Absolute(x), Absolute(dy)));
      if (!with_bias) continue;
      ExpectNear(dbias.Download(), reference::ConvolutionBackwardBias(s, dy),
                 tolerance,
                 reference::ConvolutionBackwardBias(s, Absolute(dy)));
    }
  }
}

TEST_P(DeviceConformanceTest, ConvolutionGradientsMatchFiniteDifferences) {
  const ConvolutionShape s = Shape(2, 3, 7, 6, 5, 3, 2, 1);
  const ConvolutionTensors t(*device_, s);
  auto dx = OutputReals(t.x.size());
  auto dweight = Output(t.weight.size()), dbias = Output(t.bias.size());
  device_->ops().convolution->BackwardInput(
      {s, UploadReals(t.dy), UploadReals(t.weight), dx});
  device_->ops().convolution->BackwardWeight(
      {s, UploadReals(t.x), UploadReals(t.dy), dweight, dbias});
  const Doubles x = ToDoubles(t.x), w = ToDoubles(t.weight),
                b = ToDoubles(t.bias);
  const auto forward = [&](const Doubles& x, const Doubles& w,
                           const Doubles& b) {
    return Dot(reference::ConvolutionForward(s, x, w, b), t.dy);
  };
  ExpectGradient([&](const Doubles& v) { return forward(v, w, b); }, x,
                 dx.Download(), 2e-5, RealEpsilon());
  ExpectGradient([&](const Doubles& v) { return forward(x, v, b); }, w,
                 dweight.Download(), 2e-5);
  ExpectGradient([&](const Doubles& v) { return forward(x, w, v); }, b,
                 dbias.Download(), 2e-5);
}

PoolShape Pool(int64_t batch, int64_t channels, int64_t height, int64_t width,
               int64_t window) {
  return {batch,           channels,       height, width,
          height / window, width / window, window};
}

PoolShape Overlapping(int64_t batch, int64_t channels, int64_t height,
                      int64_t width, int64_t window, int64_t stride,
                      int64_t padding) {
  return {batch,
          channels,
          height,
          width,
          (height + 2 * padding - window) / stride + 1,
          (width + 2 * padding - window) / stride + 1,
          window,
          stride,
          padding};
}

std::vector<PoolShape> PoolShapes() {
  return {Pool(1, 1, 1, 1, 1),   Pool(2, 3, 28, 28, 2), Pool(3, 17, 7, 7, 2),
          Pool(1, 5, 65, 67, 2), Pool(2, 3, 14, 14, 2), Pool(1, 2, 9, 40, 2),
          Pool(2, 3, 10, 11, 3), Pool(2, 4, 7, 7, 7),   Pool(1, 3, 33, 66, 4)};
}

std::vector<PoolShape> MaxPoolShapes() {
  std::vector<PoolShape> shapes = PoolShapes();
  for (const PoolShape& s :
       {Overlapping(2, 3, 16, 14, 3, 2, 1), Overlapping(1, 2, 7, 9, 3, 1, 0),
        Overlapping(1, 3, 1, 1, 3, 2, 1), Overlapping(2, 2, 8, 9, 2, 1, 0),
        Overlapping(1, 2, 11, 10, 2, 2, 1),
        Overlapping(1, 2, 12, 13, 2, 5, 0)}) {
    shapes.push_back(s);
  }
  return shapes;
}

std::string Name(const PoolShape& s) {
  return std::to_string(s.batch * s.channels) + " planes of " +
         std::to_string(s.in_height) + " x " + std::to_string(s.in_width) +
         ", window " + std::to_string(s.window) + ", stride " +
         std::to_string(s.Stride()) + ", padding " + std::to_string(s.padding);
}

int64_t InCount(const PoolShape& s) {
  return s.batch * s.channels * s.in_height * s.in_width;
}
int64_t OutCount(const PoolShape& s) {
  return s.batch * s.channels * s.out_height * s.out_width;
}

// Few different values, so that most windows have several maxima.
Floats FloatsWithTies(int64_t count) {
  Floats values;
  for (int32_t value : RandomIntegers(count, 4, 5)) {
    values.push_back(static_cast<float>(value) - 2.0f);
  }
  return values;
}

// Index in x of each output's maximum.
std::vector<int64_t> Sources(const PoolShape& s, const Integers& places) {
  std::vector<int64_t> sources;
  const int64_t out_plane = s.out_height * s.out_width;
  for (size_t o = 0; o < places.size(); ++o) {
    sources.push_back(static_cast<int64_t>(o) / out_plane * s.in_height *
                          s.in_width +
                      places[o]);
  }
  return sources;
}

TEST_P(DeviceConformanceTest, MaxPoolTakesFirstMaximumOfEachWindow) {
  for (const PoolShape& s : MaxPoolShapes()) {
    SCOPED_TRACE(Name(s));
    for (const Floats& x :
         {FloatsWithTies(InCount(s)), Random(InCount(s), 1)}) {
      auto y = OutputReals(OutCount(s));
      GuardedArray<int32_t> argmax(*device_, OutCount(s), -1);
      device_->ops().pooling->MaxForward({s, UploadReals(x), y, argmax});
      const Integers places = reference::MaxPoolPlaces(s, ToDoubles(x));
      EXPECT_EQ(argmax.Download(), places);
      Floats expected;
      for (int64_t source : Sources(s, places)) expected.push_back(x[source]);
      EXPECT_EQ(y.Download(), expected);
    }
  }
}

TEST_P(DeviceConformanceTest, MaxPoolBackwardSendsGradientToTheMaximum) {
  for (const PoolShape& s : MaxPoolShapes()) {
    SCOPED_TRACE(Name(s));
    const Floats x = FloatsWithTies(InCount(s));
    const Floats dy = Random(OutCount(s), 2);
    const Integers places = reference::MaxPoolPlaces(s, ToDoubles(x));
    auto dx = OutputReals(InCount(s));
    device_->ops().pooling->MaxBackward(
        {s, UploadReals(dy), Upload(places), dx});
    Floats expected(InCount(s), 0.0f);
    const std::vector<int64_t> sources = Sources(s, places);
    for (size_t o = 0; o < dy.size(); ++o) expected[sources[o]] += dy[o];
    EXPECT_EQ(dx.Download(), Rounded(*device_, expected));
  }
}

TEST_P(DeviceConformanceTest, AveragePoolAveragesAndSpreadsItsGradient) {
  for (const PoolShape& s : PoolShapes()) {
    SCOPED_TRACE(Name(s));
    const Floats x = Random(InCount(s), 1);
    const Floats dy = Random(OutCount(s), 2);
    auto y = OutputReals(OutCount(s)), dx = OutputReals(InCount(s));
    device_->ops().pooling->AverageForward({s, UploadReals(x), y});
    const double tolerance = (s.window * s.window + 2) * kEpsilon;
    ExpectRealsNear(y, reference::AveragePoolForward(s, ToDoubles(x)),
                    tolerance);
    device_->ops().pooling->AverageBackward({s, UploadReals(dy), dx});
    ExpectGradient(
        [&](const Doubles& v) {
          return Dot(reference::AveragePoolForward(s, v), dy);
        },
        ToDoubles(x), dx.Download(), 1e-6, RealEpsilon());
  }
}

TEST_P(DeviceConformanceTest, GlobalAveragePoolAveragesAndSpreadsItsGradient) {
  for (const int64_t planes : {1, 7}) {
    for (const int64_t pixels : {1, 15, 16, 49, 1000}) {
      SCOPED_TRACE(std::to_string(planes) + " x " + std::to_string(pixels));
      const Floats x = Random(planes * pixels, 1);
      const Floats dy = Random(planes, 2);
      auto y = OutputReals(planes), dx = OutputReals(planes * pixels);
      device_->ops().pooling->GlobalAverageForward(
          {planes, pixels, UploadReals(x), y});
      ExpectRealsNear(
          y, reference::GlobalAveragePoolForward(planes, pixels, ToDoubles(x)),
          static_cast<double>(pixels + 2) * kEpsilon);
      device_->ops().pooling->GlobalAverageBackward(
          {planes, pixels, UploadReals(dy), dx});
      Floats expected(planes * pixels);
      for (size_t i = 0; i < expected.size(); ++i) {
        expected[i] = dy[i / pixels] / static_cast<float>(pixels);
      }
      EXPECT_EQ(dx.Download(), Rounded(*device_, expected));
    }
  }
}

}  // namespace
}  // namespace tributary
