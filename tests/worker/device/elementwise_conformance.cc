#include <cmath>
#include <limits>

#include "common/numerics/half.h"
#include "proto/job.pb.h"
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
    EXPECT_TRUE(device_->CopyToHost(content.data(), memory->get(), bytes).ok());
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

// Values of all magnitudes, denormal ones, infinite ones and NaN.
Floats AllKinds(int64_t count, int seed) {
  Floats values = RandomFloats(count, seed);
  for (int64_t i = 0; i < count; ++i) {
    values[i] = std::ldexp(values[i], static_cast<int>(i * 37 % 270) - 140);
  }
  const float infinity = std::numeric_limits<float>::infinity();
  const float special[] = {0.0f,
                           -0.0f,
                           infinity,
                           -infinity,
                           std::numeric_limits<float>::quiet_NaN(),
                           65520.0f};
  for (int64_t i = 0; i < count; i += 11) {
    values[i] = special[i / 11 * (seed % 5 + 1) % 6];
  }
  return values;
}

void ExpectSameBits(const Floats& got, const Floats& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(got[i])) << i;
    } else {
      EXPECT_EQ(got[i], expected[i]) << i;
      EXPECT_EQ(std::signbit(got[i]), std::signbit(expected[i])) << i;
    }
  }
}

TEST_P(DeviceConformanceTest, NodesAreTheHostsToTheBit) {
  for (const WireDtype dtype :
       {ExchangeSpec::FLOAT32, ExchangeSpec::BFLOAT16, ExchangeSpec::FLOAT16}) {
    for (const int64_t count : kCounts) {
      const Floats x = AllKinds(count, 1), y = AllKinds(count, 2);
      const auto node = Output(count);
      Floats expected(count);
      device_->ops().node_sum->Keep({dtype, count, Upload(x), node});
      RoundedCopy(dtype, x.data(), expected.data(), count);
      ExpectSameBits(node.Download(), expected);
      device_->ops().node_sum->Add({dtype, count, Upload(y), node});
      RoundAndAdd(dtype, y.data(), expected.data(), count);
      ExpectSameBits(node.Download(), expected);
    }
  }
}

TEST_P(DeviceConformanceTest, RoundTakesTheNearestAndOfTwoTheEven) {
  // Between 1 and the next bfloat16 number, 1 + 2^-7, and those two around it.
  const Floats values = {1.0f,
                         -1.0f,
                         1.0f + 0x1p-9f,
                         1.0f + 0x1p-8f,
                         1.0f + 0x1p-8f + 0x1p-23f,
                         -1.0f - 0x1p-7f - 0x1p-8f,
                         0.0f,
                         std::numeric_limits<float>::infinity(),
                         std::numeric_limits<float>::max()};
  auto rounded = OutputReals(values.size());
  device_->ops().elementwise->Round(
      {static_cast<int64_t>(values.size()), Upload(values), rounded});
  if (device_->precision() == Precision::kFloat32) {
    EXPECT_EQ(rounded.Download(), values);
  } else {
    const float infinity = std::numeric_limits<float>::infinity();
    EXPECT_EQ(rounded.Download(),
              (Floats{1.0f, -1.0f, 1.0f, 1.0f, 1.0f + 0x1p-7f, -1.0f - 0x1p-6f,
                      0.0f, infinity, infinity}));
  }
  for (int64_t count : kCounts) {
    const Floats many = RandomFloats(count, 1);
    auto y = OutputReals(count);
    device_->ops().elementwise->Round({count, Upload(many), y});
    EXPECT_EQ(y.Download(), Rounded(*device_, many));
  }
}

TEST_P(DeviceConformanceTest, CopyCopies) {
  for (int64_t count : kCounts) {
    const Floats x = Random(count, 1);
    auto y = OutputReals(count);
    device_->ops().elementwise->Copy({count, UploadReals(x), y});
    EXPECT_EQ(y.Download(), x);
  }
}

TEST_P(DeviceConformanceTest, AddAddsToTheSecond) {
  for (int64_t count : kCounts) {
    const Floats x = Random(count, 1), y = Random(count, 2);
    auto sum = UploadReals(y);
    device_->ops().elementwise->Add({count, UploadReals(x), sum});
    Floats expected;
    for (int64_t i = 0; i < count; ++i) expected.push_back(x[i] + y[i]);
    EXPECT_EQ(sum.Download(), Rounded(*device_, expected));
  }
}

TEST_P(DeviceConformanceTest, ReluPassesWhatIsPositive) {
  for (int64_t count : kCounts) {
    Floats x = Random(count, 1);
    x[count / 2] = 0.0f;
    const Floats dy = Random(count, 2);
    Floats y_expected, dx_expected;
    for (int64_t i = 0; i < count; ++i) {
      y_expected.push_back(x[i] > 0 ? x[i] : 0);
      dx_expected.push_back(x[i] > 0 ? dy[i] : 0);
    }
    auto y = OutputReals(count), dx = OutputReals(count);
    device_->ops().elementwise->ReluForward({count, UploadReals(x), y});
    EXPECT_EQ(y.Download(), y_expected);
    device_->ops().elementwise->ReluBackward({count, y, UploadReals(dy), dx});
    EXPECT_EQ(dx.Download(), Rounded(*device_, dx_expected));
    auto in_place = UploadReals(x);
    device_->ops().elementwise->ReluForward({count, in_place, in_place});
    EXPECT_EQ(in_place.Download(), y_expected);
    auto gradient = UploadReals(dy);
    device_->ops().elementwise->ReluBackward({count, y, gradient, gradient});
    EXPECT_EQ(gradient.Download(), dx_expected);
  }
}

// From -6 to 6: beyond, GELU is 0 or the identity to float32's precision.
Floats GeluInputs(const Device& device, int64_t count) {
  Floats x = RandomFloats(count, 1);
  for (float& value : x) value *= 6;
  return Rounded(device, x);
}

TEST_P(DeviceConformanceTest, GeluMatchesReference) {
  for (int64_t count : kCounts) {
    const Floats x = GeluInputs(*device_, count);
    Doubles expected, magnitude;
    for (float value : x) {
      expected.push_back(reference::Gelu(value));
      // Relative to |x|: implementations may compute 1 + tanh.
      magnitude.push_back(std::abs(value));
    }
    auto y = OutputReals(count);
    device_->ops().elementwise->GeluForward({count, UploadReals(x), y});
    // The argument of exp or tanh is below 1 where the slope is large, and has
    // six roundings; the function itself is good to four.
    ExpectRealsNear(y, expected, 16 * kEpsilon, magnitude);
    auto in_place = UploadReals(x);
    device_->ops().elementwise->GeluForward({count, in_place, in_place});
    EXPECT_EQ(in_place.Download(), y.Download());
  }
}

TEST_P(DeviceConformanceTest, GeluGradientMatchesFiniteDifferences) {
  for (int64_t count : kCounts) {
    const Floats x = GeluInputs(*device_, count), dy = Random(count, 2);
    auto dx = OutputReals(count);
    device_->ops().elementwise->GeluBackward(
        {count, UploadReals(x), UploadReals(dy), dx});
    ExpectGradient(
        [&](const Doubles& v) {
          double sum = 0;
          for (int64_t i = 0; i < count; ++i) {
            sum += reference::Gelu(v[i]) * dy[i];
          }
          return sum;
        },
        ToDoubles(x), dx.Download(), 3e-6, RealEpsilon());
    auto in_place = UploadReals(dy);
    device_->ops().elementwise->GeluBackward(
        {count, UploadReals(x), in_place, in_place});
    EXPECT_EQ(in_place.Download(), dx.Download());
  }
}

TEST_P(DeviceConformanceTest, GeluOfLargeInputsIsFinite) {
  const float most = std::numeric_limits<float>::max();
  const Floats x =
      Rounded(*device_, {-100, -30, -10, 10, 30, 100, -1e4f, 1e4f});
  auto y = OutputReals(x.size()), dx = OutputReals(x.size());
  device_->ops().elementwise->GeluForward(
      {static_cast<int64_t>(x.size()), UploadReals(x), y});
  device_->ops().elementwise->GeluBackward(
      {static_cast<int64_t>(x.size()), UploadReals(x),
       UploadReals(Floats(static_cast<int64_t>(x.size()), 1)), dx});
  Doubles expected, slope;
  for (float value : x) {
    expected.push_back(value > 0 ? value : 0);
    slope.push_back(value > 0 ? 1 : 0);
  }
  ExpectRealsNear(y, expected, 1e-20);
  ExpectRealsNear(dx, slope, 1e-6);
  EXPECT_LT(y.Download().back(), most);
}

TEST_P(DeviceConformanceTest, NotANumberPassesThroughActivations) {
  Floats x = Random(65, 1);
  for (size_t i : {0, 20, 64}) x[i] = std::numeric_limits<float>::quiet_NaN();
  auto relu = OutputReals(x.size()), gelu = OutputReals(x.size());
  device_->ops().elementwise->ReluForward(
      {static_cast<int64_t>(x.size()), UploadReals(x), relu});
  device_->ops().elementwise->GeluForward(
      {static_cast<int64_t>(x.size()), UploadReals(x), gelu});
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
      const Floats x = Random(count, 1);
      auto y = OutputReals(count);
      device_->ops().elementwise->Dropout(
          {count, stream, rate, UploadReals(x), y});
      Doubles expected;
      for (int64_t i = 0; i < count; ++i) {
        expected.push_back(x[i] * reference::DropoutFactor(stream, rate, i));
      }
      // 1 - rate, its inverse and the product round; 0 must be 0.
      ExpectRealsNear(y, expected, 4 * kEpsilon, reference::Absolute(expected));
      auto in_place = UploadReals(x);
      device_->ops().elementwise->Dropout(
          {count, stream, rate, in_place, in_place});
      EXPECT_EQ(in_place.Download(), y.Download());
    }
  }
}

}  // namespace
}  // namespace tributary
