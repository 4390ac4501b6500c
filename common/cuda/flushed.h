// float32 arithmetic on a GPU that gives the same bits as an x86-64 processor
// that flushes denormal numbers (common/numerics/flush_denormals.h). For
// kernels whose results must equal the results of loops on the CPU. For .cu
// files only.
#ifndef TRIBUTARY_COMMON_CUDA_FLUSHED_H_
#define TRIBUTARY_COMMON_CUDA_FLUSHED_H_

#include <cuda_runtime.h>

namespace tributary::cuda {

// A float32 that is not denormal. Each operation rounds once; the compiler
// cannot combine two operations into a fused multiply-add.
//
// The GPU's flushing (nvcc -ftz=true) is not used, because processors differ in
// whether a result that rounds up to 2^-126 counts as denormal. x86-64 rounds
// as if the exponent were unbounded, and flushes the result if it is below
// 2^-126. These operations do the same.
class Flushed {
 public:
  Flushed() = default;  // Leaves the value uninitialized.
  // Converts `value`; a denormal number becomes a zero of the same sign.
  __device__ explicit Flushed(float value)
      : value_(fabsf(value) < kLeast ? copysignf(0.0f, value) : value) {}

  __device__ float value() const { return value_; }
  __device__ explicit operator float() const { return value_; }

  // The operators return the result as a Flushed. Addition and subtraction need
  // no special case: a result below 2^-126 is exact, so it never rounds up to
  // 2^-126.
  __device__ friend Flushed operator+(Flushed a, Flushed b) {
    return Flushed(__fadd_rn(a.value_, b.value_));
  }
  __device__ friend Flushed operator-(Flushed a, Flushed b) {
    return Flushed(__fsub_rn(a.value_, b.value_));
  }
  __device__ friend Flushed operator*(Flushed a, Flushed b) {
    const float product = __fmul_rn(a.value_, b.value_);
    if (fabsf(product) != kLeast) return Flushed(product);
    // The rounded product is 2^-126 in magnitude, so the smaller factor is
    // below 2^-62, and scaling it by 2^64 cannot overflow.
    const bool first = fabsf(a.value_) < fabsf(b.value_);
    const float scaled = first
                             ? __fmul_rn(__fmul_rn(a.value_, kScale), b.value_)
                             : __fmul_rn(a.value_, __fmul_rn(b.value_, kScale));
    return OfScaled(scaled, product);
  }
  __device__ friend Flushed operator/(Flushed a, Flushed b) {
    const float quotient = __fdiv_rn(a.value_, b.value_);
    if (fabsf(quotient) != kLeast) return Flushed(quotient);
    // The rounded quotient is 2^-126 in magnitude and the divisor is below
    // 2^128, so the dividend is at most 4, and scaling it by 2^64 cannot
    // overflow.
    return OfScaled(__fdiv_rn(__fmul_rn(a.value_, kScale), b.value_), quotient);
  }
  __device__ friend Flushed SquareRoot(Flushed x) {
    return Flushed(__fsqrt_rn(x.value_));
  }
  __device__ friend bool operator<(Flushed a, Flushed b) {
    return a.value_ < b.value_;
  }

 private:
  static constexpr float kLeast = 0x1p-126f;  // The smallest normal number.
  static constexpr float kScale = 0x1p64f;

  // Decides whether a result that rounds to 2^-126 or -2^-126 is flushed.
  // `rounded` is that result, and `scaled` is the result, times kScale, rounded
  // as if the exponent were unbounded. Returns a zero with the sign of
  // `rounded` if `scaled` is below 2^-126 times kScale in magnitude, and
  // otherwise `rounded`.
  __device__ static Flushed OfScaled(float scaled, float rounded) {
    return Flushed(fabsf(scaled) < kLeast * kScale ? copysignf(0.0f, rounded)
                                                   : rounded);
  }

  float value_;
};

}  // namespace tributary::cuda

#endif  // TRIBUTARY_COMMON_CUDA_FLUSHED_H_
