// The conformance suite of Device: every implementation must pass it. A test
// of an implementation links the library and says
//
//   INSTANTIATE_TEST_SUITE_P(Cpu, DeviceConformanceTest,
//                            testing::Values(DeviceFactory{"cpu", ...}));
//
// Operations are compared with tests/worker/device/reference.h in float64, over
// sizes around the blocks and vectors that implementations work in; gradients
// with finite differences of the same reference.
//
// Tolerances: kEpsilon, float32's unit roundoff, times the number of roundings
// that the result depends on, times the magnitude of what was rounded. On
// devices of bfloat16 inputs are rounded to it first, so what is left is one
// more rounding of each output of type Real: RealEpsilon() times its magnitude.
#ifndef TRIBUTARY_TESTS_WORKER_DEVICE_DEVICE_CONFORMANCE_H_
#define TRIBUTARY_TESTS_WORKER_DEVICE_DEVICE_CONFORMANCE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "worker/device/device.h"

namespace tributary {

inline constexpr double kEpsilon = 0x1p-24;
inline constexpr double kBfloat16Epsilon = 0x1p-8;

struct DeviceFactory {
  std::string name;
  // Null where the machine has no such device: the tests are skipped.
  std::function<std::unique_ptr<Device>()> create;
};

inline void PrintTo(const DeviceFactory& factory, std::ostream* os) {
  *os << factory.name;
}

using Floats = std::vector<float>;
using Doubles = std::vector<double>;
using Integers = std::vector<int32_t>;

// Memory of a device that holds `count` values of type T between two guards,
// which it checks for writes out of bounds. Belongs to the test's thread.
template <typename T>
class Buffer {
 public:
  // Every value is `fill`.
  Buffer(Device& device, int64_t count, T fill);
  Buffer(Device& device, const std::vector<T>& values);

  // Null for a buffer made by None().
  T* data() const { return data_; }
  operator T*() const { return data_; }
  // Waits for the device, checks the guards.
  std::vector<T> Download() const;

 private:
  void Fill(const std::vector<T>& values);

  Device* device_;
  int64_t count_;
  Device::Memory memory_;
  T* data_;
};

// The same for numbers of type Real.
class Reals {
 public:
  Reals(Device& device, const Floats& values);

  Real* data() const;
  operator Real*() const { return data(); }
  Floats Download() const;

 private:
  // One of the two is used, by the device's precision.
  Buffer<float> floats_;
  Buffer<uint16_t> halves_;
  bool is_float32_;
};

// Uniform in [-1, 1), a pure function of (count, seed).
Floats RandomFloats(int64_t count, uint32_t seed);
// In the device's precision.
Floats Rounded(const Device& device, const Floats& values);
Floats RandomReals(const Device& device, int64_t count, uint32_t seed);

// In [0, bound).
Integers RandomIntegers(int64_t count, int32_t bound, uint32_t seed);

Doubles ToDoubles(const Floats& values);

class DeviceConformanceTest : public testing::TestWithParam<DeviceFactory> {
 protected:
  void SetUp() override;

  Buffer<float> Upload(const Floats& values) { return {*device_, values}; }
  Buffer<int32_t> Upload(const Integers& values) { return {*device_, values}; }
  // Rounds to the device's precision.
  Reals UploadReals(const Floats& values) { return {*device_, values}; }
  // For outputs: NaNs, so that an element that is not written shows.
  Buffer<float> Output(int64_t count);
  Reals OutputReals(int64_t count);

  // RandomReals.
  Floats Random(int64_t count, uint32_t seed) const {
    return RandomReals(*device_, count, seed);
  }
  // What is added to relative tolerances for results of type Real.
  double RealEpsilon() const;
  // ExpectNear for results of type Real.
  void ExpectRealsNear(const Reals& actual, const Doubles& expected,
                       double tolerance) const;
  void ExpectRealsNear(const Reals& actual, const Doubles& expected,
                       double tolerance, const Doubles& magnitudes) const;

  std::unique_ptr<Device> device_;
};

// Each |actual - expected| <= tolerance.
void ExpectNear(const Floats& actual, const Doubles& expected,
                double tolerance);
// Each |actual - expected| <= tolerance times the magnitude at its place.
void ExpectNear(const Floats& actual, const Doubles& expected, double tolerance,
                const Doubles& magnitudes);

// `gradient` is that of `function` at `at`: compares up to 50 elements, the
// first and last among them, and the slope in three random directions, which
// all elements have a part in, with central differences. Tolerance: per
// element, besides `relative` times the element; the directions get it times
// the square root of the count.
void ExpectGradient(const std::function<double(const Doubles&)>& function,
                    const Doubles& at, const Floats& gradient, double tolerance,
                    double relative = 0);

double Dot(const Doubles& a, const Floats& b);

// Begin a loss and wait for it.
Loss SoftmaxCrossEntropy(const Device& device, int64_t rows, int64_t classes,
                         const Real* logits, const int32_t* labels,
                         Real* dlogits);
Loss MeanSquaredError(const Device& device, int64_t rows, int64_t width,
                      const Real* x, const float* target, Real* dx);

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_WORKER_DEVICE_DEVICE_CONFORMANCE_H_
