#include <cmath>

#include "tests/worker/device/device_conformance.h"
#include "tests/worker/device/reference.h"

namespace tributary {
namespace {

// Every combination of sizes around vectors and blocks, and the kinds of shape
// that an implementation may treat in its own way: few rows and large weights,
// many rows, long sums.
std::vector<LinearShape> LinearShapes() {
  std::vector<LinearShape> shapes;
  for (int64_t rows : {1, 3, 17, 65}) {
    for (int64_t inputs : {1, 3, 17, 65}) {
      for (int64_t outputs : {1, 3, 17, 65}) {
        shapes.push_back({rows, inputs, outputs});
      }
    }
  }
  shapes.push_back({16, 515, 530});
  shapes.push_back({16, 512, 512});
  shapes.push_back({7, 768, 1030});
  shapes.push_back({64, 784, 10});
  shapes.push_back({64, 130, 257});
  shapes.push_back({300, 128, 96});
  shapes.push_back({129, 400, 33});
  return shapes;
}

std::string Name(const LinearShape& s) {
  return std::to_string(s.rows) + " x " + std::to_string(s.inputs) + " -> " +
         std::to_string(s.outputs);
}

// A sum of n products rounds each product and each addition, at most to the
// sum of the absolute values; two more for what is added at the end.
double SumTolerance(int64_t n) { return static_cast<double>(n + 2) * kEpsilon; }

Doubles ElementSums(Doubles a, const Doubles& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

using reference::Absolute;

TEST_P(DeviceConformanceTest, LinearForwardIsProductPlusBias) {
  for (const LinearShape& s : LinearShapes()) {
    SCOPED_TRACE(Name(s));
    const Floats x = Random(s.rows * s.inputs, 1);
    const Floats weight = Random(s.outputs * s.inputs, 2);
    for (const Floats& bias : {Random(s.outputs, 3), Floats()}) {
      auto y = OutputReals(s.rows * s.outputs);
      const auto device_bias = Upload(bias);
      device_->ops().linear->Forward(
          {s, UploadReals(x), UploadReals(weight),
           bias.empty() ? nullptr : device_bias.data(), y});
      const Doubles xd = ToDoubles(x), wd = ToDoubles(weight),
                    bd = ToDoubles(bias);
      ExpectRealsNear(y, reference::LinearForward(s, xd, wd, bd),
                      SumTolerance(s.inputs),
                      reference::LinearForward(s, Absolute(xd), Absolute(wd),
                                               Absolute(bd)));
    }
  }
}

TEST_P(DeviceConformanceTest, LinearBackwardInputSetsOrAddsGradient) {
  for (const LinearShape& s : LinearShapes()) {
    SCOPED_TRACE(Name(s));
    const Floats dy = Random(s.rows * s.outputs, 1);
    const Floats weight = Random(s.outputs * s.inputs, 2);
    const Floats before = Random(s.rows * s.inputs, 3);
    const Doubles dyd = ToDoubles(dy), wd = ToDoubles(weight);
    const Doubles expected = reference::LinearBackwardInput(s, dyd, wd);
    const Doubles magnitude =
        reference::LinearBackwardInput(s, Absolute(dyd), Absolute(wd));
    auto dx = OutputReals(s.rows * s.inputs);
    device_->ops().linear->BackwardInput({s, UploadReals(dy),
                                          UploadReals(weight),
                                          /*accumulate=*/false, dx});
    ExpectRealsNear(dx, expected, SumTolerance(s.outputs), magnitude);
    auto sum = UploadReals(before);
    device_->ops().linear->BackwardInput({s, UploadReals(dy),
                                          UploadReals(weight),
                                          /*accumulate=*/true, sum});
    Doubles magnitudes = ElementSums(Absolute(ToDoubles(before)), magnitude);
    const bool is_gpu = !device_->bus_id().empty();
    for (size_t i = 0; is_gpu && i < magnitudes.size(); ++i) {
      // cuBLASLt rounds the product before it adds.
      magnitudes[i] +=
          std::abs(expected[i]) * RealEpsilon() / SumTolerance(s.outputs);
    }
    ExpectRealsNear(sum, ElementSums(ToDoubles(before), expected),
                    SumTolerance(s.outputs), magnitudes);
  }
}

TEST_P(DeviceConformanceTest, LinearBackwardWeightSetsOrAddsGradient) {
  for (const LinearShape& s : LinearShapes()) {
    SCOPED_TRACE(Name(s));
    const Floats x = Random(s.rows * s.inputs, 1);
    const Floats dy = Random(s.rows * s.outputs, 2);
    const Floats before = Random(s.outputs * s.inputs, 3);
    const Doubles xd = ToDoubles(x), dyd = ToDoubles(dy);
    const Doubles expected = reference::LinearBackwardWeight(s, xd, dyd);
    const Doubles magnitude =
        reference::LinearBackwardWeight(s, Absolute(xd), Absolute(dyd));
    auto dweight = Output(s.outputs * s.inputs);
    auto dbias = Output(s.outputs);
    device_->ops().linear->BackwardWeight({s, UploadReals(x), UploadReals(dy),
                                           /*accumulate=*/false, dweight,
                                           dbias});
    ExpectNear(dweight.Download(), expected, SumTolerance(s.rows), magnitude);
    ExpectNear(dbias.Download(), reference::ColumnSums(s.rows, s.outputs, dyd),
               SumTolerance(s.rows),
               reference::ColumnSums(s.rows, s.outputs, Absolute(dyd)));
    auto sum = Upload(before);
    device_->ops().linear->BackwardWeight({s, UploadReals(x), UploadReals(dy),
                                           /*accumulate=*/true, sum, nullptr});
    ExpectNear(sum.Download(), ElementSums(ToDoubles(before), expected),
               SumTolerance(s.rows),
               ElementSums(Absolute(ToDoubles(before)), magnitude));
  }
}

// The largest slope of GELU.
constexpr double kGeluSlope = 1.13;

double GeluSlope(double z) {
  constexpr double kStep = 1e-5;
  return (reference::Gelu(z + kStep) - reference::Gelu(z - kStep)) /
         (2 * kStep);
}

TEST_P(DeviceConformanceTest, LinearAndGeluGiveWhatGeluIsMadeOf) {
  for (const LinearShape& s : LinearShapes()) {
    SCOPED_TRACE(Name(s));
    const Floats x = Random(s.rows * s.inputs, 1);
    const Floats weight = Random(s.outputs * s.inputs, 2);
    for (const Floats& bias : {Random(s.outputs, 3), Floats()}) {
      auto z = OutputReals(s.rows * s.outputs);
      auto y = OutputReals(s.rows * s.outputs);
      const auto device_bias = Upload(bias);
      device_->ops().linear->GeluForward(
          {s, UploadReals(x), UploadReals(weight),
           bias.empty() ? nullptr : device_bias.data(), z, y});
      const Doubles xd = ToDoubles(x), wd = ToDoubles(weight),
                    bd = ToDoubles(bias);
      const Doubles sums = reference::LinearForward(s, xd, wd, bd);
      const Doubles magnitudes =
          reference::LinearForward(s, Absolute(xd), Absolute(wd), Absolute(bd));
      ExpectRealsNear(z, sums, SumTolerance(s.inputs), magnitudes);
      Doubles expected, limits;
      for (size_t i = 0; i < sums.size(); ++i) {
        expected.push_back(reference::Gelu(sums[i]));
        // z may have been rounded before.
        limits.push_back(kGeluSlope * (SumTolerance(s.inputs) * magnitudes[i] +
                                       RealEpsilon() * std::abs(sums[i])) +
                         16 * kEpsilon * std::abs(sums[i]));
      }
      ExpectRealsNear(y, expected, 1.0, limits);
    }
  }
}

TEST_P(DeviceConformanceTest, LinearAndGeluGradientGoesToWhatGeluIsMadeOf) {
  for (const LinearShape& s : LinearShapes()) {
    SCOPED_TRACE(Name(s));
    const Floats dy = Random(s.rows * s.outputs, 1);
    const Floats weight = Random(s.outputs * s.inputs, 2);
    Floats z = Random(s.rows * s.inputs, 3);
    for (float& value : z) value *= 4;
    auto dz = OutputReals(s.rows * s.inputs);
    device_->ops().linear->GeluBackwardInput(
        {s, UploadReals(dy), UploadReals(weight), UploadReals(z), dz});
    const Doubles dyd = ToDoubles(dy), wd = ToDoubles(weight);
    const Doubles sums = reference::LinearBackwardInput(s, dyd, wd);
    const Doubles magnitudes =
        reference::LinearBackwardInput(s, Absolute(dyd), Absolute(wd));
    Doubles expected, limits;
    for (size_t i = 0; i < sums.size(); ++i) {
      expected.push_back(sums[i] * GeluSlope(z[i]));
      // The sum may have been rounded before. The slope has an exponential in
      // it, whose argument is of a few units and has six roundings.
      limits.push_back(kGeluSlope * (SumTolerance(s.outputs) * magnitudes[i] +
                                     RealEpsilon() * std::abs(sums[i])) +
                       48 * kEpsilon * std::abs(sums[i]));
    }
    ExpectRealsNear(dz, expected, 1.0, limits);
  }
}

TEST_P(DeviceConformanceTest, LinearGradientsMatchFiniteDifferences) {
  const LinearShape s = {17, 19, 33};
  const Floats x = Random(s.rows * s.inputs, 1);
  const Floats weight = Random(s.outputs * s.inputs, 2);
  const Floats dy = Random(s.rows * s.outputs, 3);
  auto dx = OutputReals(x.size());
  auto dweight = Output(weight.size());
  device_->ops().linear->BackwardInput(
      {s, UploadReals(dy), UploadReals(weight), false, dx});
  device_->ops().linear->BackwardWeight(
      {s, UploadReals(x), UploadReals(dy), false, dweight, nullptr});
  ExpectGradient(
      [&](const Doubles& v) {
        return Dot(reference::LinearForward(s, v, ToDoubles(weight), {}), dy);
      },
      ToDoubles(x), dx.Download(), 1e-5, RealEpsilon());
  ExpectGradient(
      [&](const Doubles& v) {
        return Dot(reference::LinearForward(s, ToDoubles(x), v, {}), dy);
      },
      ToDoubles(weight), dweight.Download(), 1e-5);
}

}  // namespace
}  // namespace tributary
