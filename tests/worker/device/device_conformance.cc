#include "tests/worker/device/device_conformance.h"

#include <algorithm>
#include <cmath>
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

// Step of the central differences: their error, of second order in it, and the
// rounding of float64 divided by it are both below 1e-9.
constexpr double kStep = 1e-4;

}  // namespace

template <typename T>
Buffer<T>::Buffer(Device& device, const std::vector<T>& values)
    : device_(&device),
      count_(values.size()),
      memory_(nullptr, [](void*) {}),
      data_(nullptr) {
  Fill(values);
}

template <typename T>
Buffer<T>::Buffer(Device& device, int64_t count, T fill)
    : Buffer(device, std::vector<T>(count, fill)) {}

template <typename T>
void Buffer<T>::Fill(const std::vector<T>& values) {
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
std::vector<T> Buffer<T>::Download() const {
  std::vector<T> guarded(count_ + 2 * kGuard);
  device_->CopyToHost(guarded.data(), memory_.get(),
                      guarded.size() * sizeof(T));
  for (int64_t i = 0; i < kGuard; ++i) {
    EXPECT_EQ(guarded[i], GuardValue<T>()) << "written before the output";
    EXPECT_EQ(guarded[kGuard + count_ + i], GuardValue<T>())
        << "written after the output";
  }
  return std::vector<T>(guarded.begin() + kGuard, guarded.end() - kGuard);
}

template class Buffer<float>;
template class Buffer<int32_t>;

Floats RandomFloats(int64_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  Floats values(count);
  for (float& value : values) {
    value = static_cast<float>(generator() >> 8) * 0x1p-23f - 1.0f;
  }
  return values;
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

Buffer<float> DeviceConformanceTest::Output(int64_t count) {
  return {*device_, count, std::numeric_limits<float>::quiet_NaN()};
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
                    const Doubles& at, const Floats& gradient,
                    double tolerance) {
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
    ASSERT_NEAR(gradient[place], slope(direction), tolerance)
        << "gradient of element " << place << " of " << count;
  }
  for (uint32_t seed : {1, 2, 3}) {
    const Doubles direction = ToDoubles(RandomFloats(count, seed));
    ASSERT_NEAR(Dot(direction, gradient), slope(direction),
                tolerance * std::sqrt(static_cast<double>(count)))
        << "gradient along random direction " << seed;
  }
}

double Dot(const Doubles& a, const Floats& b) {
  double sum = 0;
  for (size_t i = 0; i < b.size(); ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace tributary
