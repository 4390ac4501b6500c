#include "tests/worker/device/device_conformance.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <set>

namespace tributary {
namespace {

constexpr int64_t kGuard = 16;  // Keeps the values aligned to 64 bytes.

template <typename T>
T GuardValue() {
  return static_cast<T>(-77777);
}

// Bit by bit, apart from common/numerics/half.h: to the nearest, of two equally
// near ones to the even one.
std::vector<uint16_t> Halves(const Floats& values) {
  std::vector<uint16_t> halves;
  for (const float value : values) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    const uint32_t rest = bits & 0xffff;
    uint32_t half = bits >> 16;
    if (std::isnan(value)) {
      half |= 0x40;
    } else if (rest > 0x8000 || (rest == 0x8000 && half % 2 == 1)) {
      ++half;
    }
    halves.push_back(static_cast<uint16_t>(half));
  }
  return halves;
}

Floats FromHalves(const std::vector<uint16_t>& halves) {
  Floats values;
  for (const uint16_t half : halves) {
    const uint32_t bits = uint32_t{half} << 16;
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    values.push_back(value);
  }
  return values;
}

// Step of the central differences: their error, of second order in it, and the
// rounding of float64 divided by it are both below 1e-9.
constexpr double kStep = 1e-4;

}  // namespace

template <typename T>
GuardedArray<T>::GuardedArray(Device& device, const std::vector<T>& values)
    : device_(&device),
      count_(values.size()),
      memory_(nullptr, [](void*) {}),
      data_(nullptr) {
  Fill(values);
}

template <typename T>
GuardedArray<T>::GuardedArray(Device& device, int64_t count, T fill)
    : GuardedArray(device, std::vector<T>(count, fill)) {}

template <typename T>
void GuardedArray<T>::Fill(const std::vector<T>& values) {
  std::vector<T> guarded(count_ + 2 * kGuard, GuardValue<T>());
  std::copy(values.begin(), values.end(), guarded.begin() + kGuard);
  auto memory = device_->Allocate(guarded.size() * sizeof(T));
  ASSERT_TRUE(memory.ok()) << memory.status();
  memory_ = *std::move(memory);
  data_ = static_cast<T*>(memory_.get()) + kGuard;
  device_->CopyFromHost(memory_.get(), guarded.data(),
                        guarded.size() * sizeof(T));
}

template <typename T>
std::vector<T> GuardedArray<T>::Download() const {
  std::vector<T> guarded(count_ + 2 * kGuard);
  EXPECT_EQ(device_->CopyToHost(guarded.data(), memory_.get(),
                                guarded.size() * sizeof(T)),
            absl::OkStatus());
  for (int64_t i = 0; i < kGuard; ++i) {
    EXPECT_EQ(guarded[i], GuardValue<T>()) << "written before the output";
    EXPECT_EQ(guarded[kGuard + count_ + i], GuardValue<T>())
        << "written after the output";
  }
  return std::vector<T>(guarded.begin() + kGuard, guarded.end() - kGuard);
}

Reals::Reals(Device& device, const Floats& values)
    : floats_(device,
              device.precision() == Precision::kFloat32 ? values : Floats()),
      halves_(device, device.precision() == Precision::kFloat32
                          ? std::vector<uint16_t>()
                          : Halves(values)),
      is_float32_(device.precision() == Precision::kFloat32) {}

Real* Reals::data() const {
  return is_float32_ ? reinterpret_cast<Real*>(floats_.data())
                     : reinterpret_cast<Real*>(halves_.data());
}

Floats Reals::Download() const {
  return is_float32_ ? floats_.Download() : FromHalves(halves_.Download());
}

template class GuardedArray<float>;
template class GuardedArray<uint16_t>;
template class GuardedArray<int32_t>;

Floats RandomFloats(int64_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  Floats values(count);
  for (float& value : values) {
    value = static_cast<float>(generator() >> 8) * 0x1p-23f - 1.0f;
  }
  return values;
}

Floats Plus(Floats values, float number) {
  for (float& value : values) value += number;
  return values;
}

int64_t Count(const AttentionShape& s) {
  return s.batch * s.time * s.heads * s.head_size;
}

Floats Rounded(const Device& device, const Floats& values) {
  return device.precision() == Precision::kFloat32 ? values
                                                   : FromHalves(Halves(values));
}

Floats RandomReals(const Device& device, int64_t count, uint32_t seed) {
  return Rounded(device, RandomFloats(count, seed));
}

Integers RandomIntegers(int64_t count, int32_t bound, uint32_t seed) {
  std::mt19937 generator(seed);
  Integers values(count);
  for (int32_t& value : values) {
    value = static_cast<int32_t>(generator() % static_cast<uint32_t>(bound));
  }
  return values;
}

Doubles ToDoubles(const Floats& values) {
  return Doubles(values.begin(), values.end());
}

void DeviceConformanceTest::SetUp() {
  device_ = GetParam().create();
  if (device_ == nullptr) {
    GTEST_SKIP() << "this machine has no device " << GetParam().name;
  }
}

GuardedArray<float> DeviceConformanceTest::Output(int64_t count) {
  return {*device_, count, std::numeric_limits<float>::quiet_NaN()};
}

Reals DeviceConformanceTest::OutputReals(int64_t count) {
  return {*device_, Floats(count, std::numeric_limits<float>::quiet_NaN())};
}

double DeviceConformanceTest::RealEpsilon() const {
  return device_->precision() == Precision::kFloat32 ? 0 : kBfloat16Epsilon;
}

void DeviceConformanceTest::ExpectRealsNear(const Reals& actual,
                                            const Doubles& expected,
                                            double tolerance) const {
  ExpectRealsNear(actual, expected, tolerance, Doubles(expected.size(), 1.0));
}

void DeviceConformanceTest::ExpectRealsNear(const Reals& actual,
                                            const Doubles& expected,
                                            double tolerance,
                                            const Doubles& magnitudes) const {
  // What is rounded last is off by the tolerance already.
  Doubles limits;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double limit = tolerance * magnitudes[i];
    limits.push_back(limit + RealEpsilon() * (std::abs(expected[i]) + limit));
  }
  ExpectNear(actual.Download(), expected, 1.0, limits);
}

void ExpectNear(const Floats& actual, const Doubles& expected,
                double tolerance) {
  ExpectNear(actual, expected, tolerance, Doubles(expected.size(), 1.0));
}

void ExpectNear(const Floats& actual, const Doubles& expected, double tolerance,
                const Doubles& magnitudes) {
  ASSERT_EQ(actual.size(), expected.size());
  ASSERT_EQ(actual.size(), magnitudes.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    // Negated, so that NaN fails.
    if (!(std::abs(actual[i] - expected[i]) <= tolerance * magnitudes[i])) {
      FAIL() << "element " << i << " of " << actual.size() << " is "
             << actual[i] << ", expected " << expected[i] << " within "
             << tolerance * magnitudes[i];
    }
  }
}

void ExpectGradient(const std::function<double(const Doubles&)>& function,
                    const Doubles& at, const Floats& gradient, double tolerance,
                    double relative) {
  ASSERT_EQ(at.size(), gradient.size());
  const auto slope = [&](const Doubles& direction) {
    Doubles ahead = at, behind = at;
    for (size_t i = 0; i < at.size(); ++i) {
      ahead[i] += kStep * direction[i];
      behind[i] -= kStep * direction[i];
    }
    return (function(ahead) - function(behind)) / (2 * kStep);
  };
  const auto count = static_cast<int64_t>(at.size());
  std::set<int64_t> places = {0, count - 1};
  for (int32_t place : RandomIntegers(48, static_cast<int32_t>(count), 7)) {
    places.insert(place);
  }
  for (int64_t place : places) {
    Doubles direction(count, 0.0);
    direction[place] = 1.0;
    ASSERT_NEAR(gradient[place], slope(direction),
                tolerance + relative * std::abs(gradient[place]))
        << "gradient of element " << place << " of " << count;
  }
  for (uint32_t seed : {1, 2, 3}) {
    const Doubles direction = ToDoubles(RandomFloats(count, seed));
    double magnitude = 0;
    for (int64_t i = 0; i < count; ++i) {
      magnitude += std::abs(direction[i] * gradient[i]);
    }
    ASSERT_NEAR(Dot(direction, gradient), slope(direction),
                tolerance * std::sqrt(static_cast<double>(count)) +
                    relative * magnitude)
        << "gradient along random direction " << seed;
  }
}

double Dot(const Doubles& a, const Floats& b) {
  double sum = 0;
  for (size_t i = 0; i < b.size(); ++i) sum += a[i] * b[i];
  return sum;
}

Loss SoftmaxCrossEntropy(const Device& device, int64_t rows, int64_t classes,
                         const Real* logits, const int32_t* labels,
                         Real* dlogits) {
  device.ops().loss->BeginSoftmaxCrossEntropy(
      {rows, classes, logits, labels, dlogits});
  return device.ops().loss->Await().value();
}

Loss MeanSquaredError(const Device& device, int64_t rows, int64_t width,
                      const Real* x, const float* target, Real* dx) {
  device.ops().loss->BeginMeanSquaredError({rows, width, x, target, dx});
  return device.ops().loss->Await().value();
}

}  // namespace tributary
