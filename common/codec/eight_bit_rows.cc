#include "common/codec/eight_bit_rows.h"

#include <algorithm>
#include <cstring>

#include "common/numerics/flush_denormals.h"
#include "common/numerics/simd.h"

// Not inlined, so that the compiler does not move arithmetic out of the scope
// of FlushDenormals.
#define TRIBUTARY_KERNEL TRIBUTARY_MULTIVERSION __attribute__((noinline))

namespace tributary {
namespace {

constexpr int32_t kSmallestScale = 1;
constexpr int32_t kLargestScale = 248;
constexpr int32_t kNanScale = 255;
constexpr int32_t kQuietNan = 0x7fc00000;
// Adding and subtracting it rounds smaller numbers to integers, to nearest,
// ties to even.
constexpr float kRounder = 0x1.8p23f;

TRIBUTARY_INLINE float FloatOf(int32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// Returns the scale of a row, as a power of two with the bias of float32's
// exponents.
TRIBUTARY_INLINE int32_t ScaleOf(const float* values, int dim) {
  int32_t largest = 0;
  for (int i = 0; i < dim; ++i) {
    int32_t bits;
    std::memcpy(&bits, &values[i], sizeof(bits));
    largest = std::max(largest, bits & 0x7fffffff);
  }
  // 127 is 1.984375 * 2^6. Fractions above 0x7e0000, which is 0.984375, carry
  // into the exponent.
  const int32_t scale = ((largest + 0x1ffff) >> 23) - 6;
  return scale > kLargestScale ? kNanScale : std::max(scale, kSmallestScale);
}

// Returns the factor that a scale stands for. That of kNanScale is NaN.
TRIBUTARY_INLINE float FactorOf(int32_t scale) {
  return FloatOf(scale == kNanScale ? kQuietNan : scale << 23);
}

// Returns the number by which a value is multiplied to become an integer.
TRIBUTARY_INLINE float InverseOf(int32_t scale) {
  return scale == kNanScale ? 0.f : FloatOf((254 - scale) << 23);
}

TRIBUTARY_INLINE float Rounded(float value) {
  return (value + kRounder) - kRounder;
}

TRIBUTARY_INLINE void RoundRow(float* values, int dim) {
  const int32_t scale = ScaleOf(values, dim);
  if (scale == kNanScale) {
    std::fill_n(values, dim, FloatOf(kQuietNan));
    return;
  }
  const float inverse = InverseOf(scale), factor = FactorOf(scale);
  for (int i = 0; i < dim; ++i)
    values[i] = Rounded(values[i] * inverse) * factor;
}

TRIBUTARY_KERNEL void RoundEach(float* __restrict values, int64_t rows,
                                int dim) {
  for (int64_t row = 0; row < rows; ++row) RoundRow(values + row * dim, dim);
}

TRIBUTARY_KERNEL void AddAndRound(const float* __restrict a,
                                  const float* __restrict b,
                                  float* __restrict out, int dim) {
  for (int i = 0; i < dim; ++i) out[i] = a[i] + b[i];
  RoundRow(out, dim);
}

TRIBUTARY_KERNEL void EncodeEach(const float* __restrict values, int64_t rows,
                                 int dim, char* __restrict to) {
  for (int64_t row = 0; row < rows; ++row) {
    const int32_t scale = ScaleOf(values, dim);
    *to++ = static_cast<char>(scale);
    if (scale == kNanScale) {
      std::memset(to, 0, dim);
    } else {
      const float inverse = InverseOf(scale);
      for (int i = 0; i < dim; ++i) {
        to[i] = static_cast<char>(
            static_cast<int32_t>(Rounded(values[i] * inverse)));
      }
    }
    values += dim;
    to += dim;
  }
}

TRIBUTARY_KERNEL int64_t DecodeEach(const char* __restrict from, int64_t rows,
                                    int dim, float* __restrict values) {
  for (int64_t row = 0; row < rows; ++row) {
    const int32_t scale = static_cast<uint8_t>(*from++);
    const float factor = FactorOf(scale);
    int32_t least = 0;
    for (int i = 0; i < dim; ++i) {
      const int32_t integer = static_cast<int8_t>(from[i]);
      least = std::min(least, integer);
      values[i] = static_cast<float>(integer) * factor;
    }
    if (least < -127 || !IsEightBitScale(scale)) return row;
    values += dim;
    from += dim;
  }
  return rows;
}

}  // namespace

void RoundEightBitRows(float* values, int64_t rows, int dim) {
  const FlushDenormals flush;
  RoundEach(values, rows, dim);
}

void SumEightBitRow(const float* a, const float* b, float* out, int dim) {
  const FlushDenormals flush;
  AddAndRound(a, b, out, dim);
}

void EncodeEightBitRows(const float* values, int64_t rows, int dim, char* to) {
  const FlushDenormals flush;
  EncodeEach(values, rows, dim, to);
}

int64_t DecodeEightBitRows(const char* from, int64_t rows, int dim,
                           float* values) {
  const FlushDenormals flush;
  return DecodeEach(from, rows, dim, values);
}

}  // namespace tributary
