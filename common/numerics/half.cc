#include "common/numerics/half.h"

#include <cstring>

#include "common/numerics/flush_denormals.h"
#include "common/numerics/half_kernels.h"
#include "common/numerics/simd.h"
#include "common/numerics/vector_ops.h"

// Not inlined, so that the compiler does not move additions out of the scope of
// FlushDenormals.
#define TRIBUTARY_KERNEL TRIBUTARY_MULTIVERSION __attribute__((noinline))

namespace tributary {
namespace {

using half_kernels::Bfloat16;
using half_kernels::Float16;

TRIBUTARY_KERNEL void RoundBfloat16(const float* from, float* to,
                                    int64_t count) {
  half_kernels::Round<Bfloat16>(from, to, count);
}

TRIBUTARY_KERNEL void RoundFloat16(const float* from, float* to,
                                   int64_t count) {
  half_kernels::Round<Float16>(from, to, count);
}

TRIBUTARY_KERNEL void RoundBfloat16InPlace(float* values, int64_t count) {
  half_kernels::RoundInPlace<Bfloat16>(values, count);
}

TRIBUTARY_KERNEL void RoundFloat16InPlace(float* values, int64_t count) {
  half_kernels::RoundInPlace<Float16>(values, count);
}

TRIBUTARY_KERNEL void RoundAndAddBfloat16(const float* x, float* sum,
                                          int64_t count) {
  half_kernels::RoundAndAdd<Bfloat16>(x, sum, count);
}

TRIBUTARY_KERNEL void RoundAndAddFloat16(const float* x, float* sum,
                                         int64_t count) {
  half_kernels::RoundAndAdd<Float16>(x, sum, count);
}

TRIBUTARY_KERNEL void AddBfloat16(const float* x, float* sum, int64_t count) {
  half_kernels::AddRounded<Bfloat16>(x, sum, count);
}

TRIBUTARY_KERNEL void AddFloat16(const float* x, float* sum, int64_t count) {
  half_kernels::AddRounded<Float16>(x, sum, count);
}

TRIBUTARY_KERNEL void SumBfloat16(const float* a, const float* b, float* out,
                                  int64_t count) {
  half_kernels::SumRounded<Bfloat16>(a, b, out, count);
}

TRIBUTARY_KERNEL void SumFloat16(const float* a, const float* b, float* out,
                                 int64_t count) {
  half_kernels::SumRounded<Float16>(a, b, out, count);
}

TRIBUTARY_KERNEL void EncodeBfloat16(const float* from, char* to,
                                     int64_t count) {
  half_kernels::Encode<Bfloat16>(from, to, count);
}

TRIBUTARY_KERNEL void EncodeFloat16(const float* from, char* to,
                                    int64_t count) {
  half_kernels::Encode<Float16>(from, to, count);
}

TRIBUTARY_KERNEL void DecodeBfloat16(const char* from, float* to,
                                     int64_t count) {
  half_kernels::Decode<Bfloat16>(from, to, count);
}

TRIBUTARY_KERNEL void DecodeFloat16(const char* from, float* to,
                                    int64_t count) {
  half_kernels::Decode<Float16>(from, to, count);
}

}  // namespace

int64_t WireDtypeBytes(WireDtype dtype) {
  return dtype == ExchangeSpec::BFLOAT16 || dtype == ExchangeSpec::FLOAT16 ? 2
                                                                           : 4;
}

void RoundTo(WireDtype dtype, float* values, int64_t count) {
  if (dtype == ExchangeSpec::BFLOAT16) RoundBfloat16InPlace(values, count);
  if (dtype == ExchangeSpec::FLOAT16) RoundFloat16InPlace(values, count);
}

void RoundedCopy(WireDtype dtype, const float* from, float* to, int64_t count) {
  switch (dtype) {
    case ExchangeSpec::BFLOAT16:
      RoundBfloat16(from, to, count);
      break;
    case ExchangeSpec::FLOAT16:
      RoundFloat16(from, to, count);
      break;
    default:
      std::memcpy(to, from, count * sizeof(float));
  }
}

void RoundAndAdd(WireDtype dtype, const float* x, float* sum, int64_t count) {
  const FlushDenormals flush;
  switch (dtype) {
    case ExchangeSpec::BFLOAT16:
      RoundAndAddBfloat16(x, sum, count);
      break;
    case ExchangeSpec::FLOAT16:
      RoundAndAddFloat16(x, sum, count);
      break;
    default:
      AddInto(x, sum, count);
  }
}

void AddRounded(WireDtype dtype, const float* x, float* sum, int64_t count) {
  const FlushDenormals flush;
  switch (dtype) {
    case ExchangeSpec::BFLOAT16:
      AddBfloat16(x, sum, count);
      break;
    case ExchangeSpec::FLOAT16:
      AddFloat16(x, sum, count);
      break;
    default:
      AddInto(x, sum, count);
  }
}

void SumRounded(WireDtype dtype, const float* a, const float* b, float* out,
                int64_t count) {
  const FlushDenormals flush;
  switch (dtype) {
    case ExchangeSpec::BFLOAT16:
      SumBfloat16(a, b, out, count);
      break;
    case ExchangeSpec::FLOAT16:
      SumFloat16(a, b, out, count);
      break;
    default:
      Sum2(a, b, out, count);
  }
}

void EncodeHalf(WireDtype dtype, const float* from, void* to, int64_t count) {
  char* const bytes = static_cast<char*>(to);
  dtype == ExchangeSpec::BFLOAT16 ? EncodeBfloat16(from, bytes, count)
                                  : EncodeFloat16(from, bytes, count);
}

void DecodeHalf(WireDtype dtype, const void* from, float* to, int64_t count) {
  const char* const bytes = static_cast<const char*>(from);
  dtype == ExchangeSpec::BFLOAT16 ? DecodeBfloat16(bytes, to, count)
                                  : DecodeFloat16(bytes, to, count);
}

}  // namespace tributary
