#include <cmath>
#include <limits>

#include "tests/worker/device/device_conformance.h"
#include "tests/worker/device/reference.h"

namespace tributary {
namespace {

const int64_t kCounts[] = {1, 3, 15, 16, 17, 64, 65, 255, 1000, 4099};

TEST_P(DeviceConformanceTest, MemoryIsZeroedAndAligned) {
  for (size_t bytes : {0, 1, 63, 64, 100, 1 << 20, 2 << 20, (5 << 20) + 7}) {
    auto memory = device_->Allocate(bytes);
    ASSERT_TRUE(memory.ok()) << memory.status();
    ASSERT_NE(memory->get(), nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory->get()) % 64, 0u);
    std::vector<char> content(bytes, 1);
    device_->CopyToHost(content.data(), memory->get(), bytes);
    EXPECT_EQ(content, std::vector<char>(bytes, 0));
  }
}

TEST_P(DeviceConformanceTest, AllocateRefusesMoreThanThereIs) {
  const auto memory = device_->Allocate(size_t{1} << 60);
  EXPECT_EQ(memory.status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_P(DeviceConformanceTest, CopiesReturnWhatWasWritten) {
  const Floats values = RandomFloats(1003, 1);
  auto buffer = Upload(values);
  EXPECT_EQ(buffer.Download(), values);
  device_->Zero(buffer, 1000);
  Floats expected(1000, 0.0f);
  expected.insert(expected.end(), values.end() - 3, values.end());
  EXPECT_EQ(buffer.Download(), expected);
}

TEST_P(DeviceConformanceTest, AddAddsToTheSecond) {
  for (int64_t count : kCounts) {
    const Floats x = RandomFloats(count, 1), y = RandomFloats(count, 2);
    auto sum = Upload(y);
    device_->Add(count, Upload(x), sum);
    Floats expected;
    for (int64_t i = 0; i < count; ++i) expected.push_back(x[i] + y[i]);
    EXPECT_EQ(sum.Download(), expected);
  }
}

TEST_P(DeviceConformanceTest, ReluPassesWhatIsPositive) {
  for (int64_t count : kCounts) {
    Floats x = RandomFloats(count, 1);
    x[count / 2] = 0.0f;
    const Floats dy = RandomFloats(count, 2);
    Floats y_expected, dx_expected;
    for (int64_t i = 0; i < count; ++i) {
      y_expected.push_back(x[i] > 0 ? x[i] : 0);
      dx_expected.push_back(x[i] > 0 ? dy[i] : 0);
    }
    auto y = Output(count), dx = Output(count);
    device_->ReluForward(count, Upload(x), y);
    EXPECT_EQ(y.Download(), y_expected);
    device_->ReluBackward(count, y, Upload(dy), dx);
    EXPECT_EQ(dx.Download(), dx_expected);
    auto in_place = Upload(x);
    device_->ReluForward(count, in_place, in_place);
    EXPECT_EQ(in_place.Download(), y_expected);
    auto gradient = Upload(dy);
    device_->ReluBackward(count, y, gradient, gradient);
    EXPECT_EQ(gradient.Download(), dx_expected);
  }
}

// From -6 to 6: beyond, GELU is 0 or the identity to float32's precision.
Floats GeluInputs(int64_t count) {
  Floats x = RandomFloats(count, 1);
  for (float& value : x) value *= 6;
  return x;
}

TEST_P(DeviceConformanceTest, GeluMatchesReference) {
  for (int64_t count : kCounts) {
    const Floats x = GeluInputs(count);
    Doubles expected, magnitude;
    for (float value : x) {
      expected.push_back(reference::Gelu(value));
      // Relative to |x|: implementations may compute 1 + tanh.
      magnitude.push_back(std::abs(value));
    }
    auto y = Output(count);
    device_->GeluForward(count, Upload(x), y);
    // The argument of exp or tanh is below 1 where the slope is large, and has
    // six roundings; the function itself is good to four.
    ExpectNear(y.Download(), expected, 16 * kEpsilon, magnitude);
    auto in_place = Upload(x);
    device_->GeluForward(count, in_place, in_place);
    EXPECT_EQ(in_place.Download(), y.Download());
  }
}

TEST_P(DeviceConformanceTest, GeluGradientMatchesFiniteDifferences) {
  for (int64_t count : kCounts) {
    const Floats x = GeluInputs(count), dy = RandomFloats(count, 2);
    auto dx = Output(count);
    device_->GeluBackward(count, Upload(x), Upload(dy), dx);
    ExpectGradient(
        [&](const Doubles& v) {
          double sum = 0;
          for (int64_t i = 0; i < count; ++i) {
            sum += reference::Gelu(v[i]) * dy[i];
          }
          return sum;
        },
        ToDoubles(x), dx.Download(), 3e-6);
    auto in_place = Upload(dy);
    device_->GeluBackward(count, Upload(x), in_place, in_place);
    EXPECT_EQ(in_place.Download(), dx.Download());
  }
}

TEST_P(DeviceConformanceTest, GeluOfLargeInputsIsFinite) {
  const float most = std::numeric_limits<float>::max();
  const Floats x = {-100, -30, -10, 10, 30, 100, -1e4f, 1e4f};
  auto y = Output(x.size()), dx = Output(x.size());
  device_->GeluForward(x.size(), Upload(x), y);
  device_->GeluBackward(x.size(), Upload(x), Upload(Floats(x.size(), 1)), dx);
  Doubles expected, slope;
  for (float value : x) {
    expected.push_back(value > 0 ? value : 0);
    slope.push_back(value > 0 ? 1 : 0);
  }
  ExpectNear(y.Download(), expected, 1e-20);
  ExpectNear(dx.Download(), slope, 1e-6);
  EXPECT_LT(y.Download().back(), most);
}

TEST_P(DeviceConformanceTest, NotANumberPassesThroughActivations) {
  Floats x = RandomFloats(65, 1);
  for (size_t i : {0, 20, 64}) x[i] = std::numeric_limits<float>::quiet_NaN();
  auto relu = Output(x.size()), gelu = Output(x.size());
  device_->ReluForward(x.size(), Upload(x), relu);
  device_->GeluForward(x.size(), Upload(x), gelu);
  const Floats y = relu.Download(), z = gelu.Download();
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(std::isnan(y[i]), std::isnan(x[i])) << i;
    EXPECT_EQ(std::isnan(z[i]), std::isnan(x[i])) << i;
  }
}

TEST_P(DeviceConformanceTest, DropoutDropsByTheStream) {
  for (float rate : {0.1f, 0.5f, 0.9f}) {
    for (int64_t count : kCounts) {
      const RandomStream stream = {0x123456789abcdef0, RandomPurpose::kDropout,
                                   7, 0xffffff00u};
      const Floats x = RandomFloats(count, 1);
      auto y = Output(count);
      device_->Dropout(count, stream, rate, Upload(x), y);
      Doubles expected;
      for (int64_t i = 0; i < count; ++i) {
        expected.push_back(x[i] * reference::DropoutFactor(stream, rate, i));
      }
      // 1 - rate, its inverse and the product round; 0 must be 0.
      ExpectNear(y.Download(), expected, 4 * kEpsilon,
                 reference::Absolute(expected));
      auto in_place = Upload(x);
      device_->Dropout(count, stream, rate, in_place, in_place);
      EXPECT_EQ(in_place.Download(), y.Download());
    }
  }
}

}  // namespace
}  // namespace tributary
