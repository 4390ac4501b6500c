// The conformance suite of Device: every implementation must pass it. The test
// of an implementation links this library and contains, for example,
//
//   INSTANTIATE_TEST_SUITE_P(Cpu, DeviceConformanceTest,
//                            testing::Values(DeviceFactory{"cpu", ...}));
//
// Operations are compared with the float64 reference in
// tests/worker/device/reference.h, for sizes near the block and vector sizes of
// implementations. Gradients are compared with finite differences of the
// reference.
//
// A tolerance is kEpsilon (the unit roundoff of float32), times the number of
// roundings that the result depends on, times the magnitude of the rounded
// values. For bfloat16 devices the inputs are rounded to bfloat16 beforehand,
// so the only further error is one rounding of each output of type Real:
// RealEpsilon() times its magnitude.
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
// The random numbers of dropout in tests of attention.
inline constexpr RandomStream kDropoutStream = {99, RandomPurpose::kDropout, 3,
                                                4};

struct DeviceFactory {
  std::string name;
  // Creates the device. If it returns null, because the machine has no such
  // device, the tests are skipped.
  std::function<std::unique_ptr<Device>()> create;
};

inline void PrintTo(const DeviceFactory& factory, std::ostream* os) {
  *os << factory.name;
}

using Floats = std::vector<float>;
using Doubles = std::vector<double>;
using Integers = std::vector<int32_t>;

// Device memory for values of type T, between two guards that detect writes out
// of bounds. Not thread-safe.
template <typename T>
class GuardedArray {
 public:
  // Creates a buffer of `count` values, all equal to `fill`.
  GuardedArray(Device& device, int64_t count, T fill);
  GuardedArray(Device& device, const std::vector<T>& values);

  // Returns the address of the first value in device memory.
  T* data() const { return data_; }
  operator T*() const { return data_; }
  // Waits for the device and returns the values. Fails the test if a guard was
  // overwritten.
  std::vector<T> Download() const;

 private:
  void Fill(const std::vector<T>& values);

  Device* device_;
  int64_t count_;
  Device::Memory memory_;
  T* data_;
};

// Like GuardedArray, for numbers of type Real.
class Reals {
 public:
  Reals(Device& device, const Floats& values);

  Real* data() const;
  operator Real*() const { return data(); }
  Floats Download() const;

 private:
  // The buffer of the device's precision. The other one is empty.
  GuardedArray<float> floats_;
  GuardedArray<uint16_t> halves_;
  bool is_float32_;
};

// Returns `count` numbers that are uniformly distributed in [-1, 1). They
// depend only on `seed`.
Floats RandomFloats(int64_t count, uint32_t seed);
// Returns `values` with `number` added to each.
Floats Plus(Floats values, float number);
// Returns `values`, rounded to the precision of the device.
Floats Rounded(const Device& device, const Floats& values);
// Returns RandomFloats, rounded to the precision of the device.
Floats RandomReals(const Device& device, int64_t count, uint32_t seed);

// Returns `count` numbers in [0, bound), which depend only on `seed` and
// `bound`.
Integers RandomIntegers(int64_t count, int32_t bound, uint32_t seed);

Doubles ToDoubles(const Floats& values);

// The number of elements of the output of attention.
int64_t Count(const AttentionShape& s);

class DeviceConformanceTest : public testing::TestWithParam<DeviceFactory> {
 protected:
  void SetUp() override;

  GuardedArray<float> Upload(const Floats& values) {
    return {*device_, values};
  }
  GuardedArray<int32_t> Upload(const Integers& values) {
    return {*device_, values};
  }
  // Copies `values` to the device, rounded to the device's precision.
  Reals UploadReals(const Floats& values) { return {*device_, values}; }
  // Return a buffer for `count` outputs. It is filled with NaN, so that tests
  // detect elements that are not written.
  GuardedArray<float> Output(int64_t count);
  Reals OutputReals(int64_t count);

  // Returns RandomReals for the device of the test.
  Floats Random(int64_t count, uint32_t seed) const {
    return RandomReals(*device_, count, seed);
  }
  // Returns the relative error of one rounding to Real: 0 for float32,
  // kBfloat16Epsilon for bfloat16.
  double RealEpsilon() const;
  // Like ExpectNear, for results of type Real: adds the error of rounding each
  // result to Real to the tolerance.
  void ExpectRealsNear(const Reals& actual, const Doubles& expected,
                       double tolerance) const;
  void ExpectRealsNear(const Reals& actual, const Doubles& expected,
                       double tolerance, const Doubles& magnitudes) const;

  std::unique_ptr<Device> device_;
};

// Expects |actual[i] - expected[i]| <= tolerance for each i.
void ExpectNear(const Floats& actual, const Doubles& expected,
                double tolerance);
// Expects |actual[i] - expected[i]| <= tolerance * magnitudes[i] for each i.
void ExpectNear(const Floats& actual, const Doubles& expected, double tolerance,
                const Doubles& magnitudes);

// Expects that `gradient` is the gradient of `function` at `at`, by central
// differences. Compares up to 50 elements, including the first and the last,
// and the slopes in three random directions, to which all elements contribute.
// The tolerance of an element is `tolerance` plus `relative` times its
// magnitude. For a direction, `tolerance` is multiplied by the square root of
// the number of elements.
void ExpectGradient(const std::function<double(const Doubles&)>& function,
                    const Doubles& at, const Floats& gradient, double tolerance,
                    double relative = 0);

// Returns the sum of a[i] * b[i] over the elements of `b`.
double Dot(const Doubles& a, const Floats& b);

// Begin a loss, wait for it and return it.
Loss SoftmaxCrossEntropy(const Device& device, int64_t rows, int64_t classes,
                         const Real* logits, const int32_t* labels,
                         Real* dlogits);
Loss MeanSquaredError(const Device& device, int64_t rows, int64_t width,
                      const Real* x, const float* target, Real* dx);

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_WORKER_DEVICE_DEVICE_CONFORMANCE_H_
