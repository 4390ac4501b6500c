// Rounding to the 16-bit formats of exchange.wire_dtype, and conversion to and
// from them.
//
// To the nearest number, of two equally near ones to the one whose last bit is
// 0. What is too large becomes infinite (FLOAT16: from 65520); infinite numbers
// and NaN stay what they are, NaN as one quiet value with its sign. Denormal
// float32 numbers count as zero (see flush_denormals.h), so BFLOAT16 has no
// denormal numbers; those of FLOAT16, multiples of 2^-24, are used. The same
// bits on every x86-64, whatever the thread does with denormal numbers.
//
// Rounding what is rounded changes nothing, and a rounded number survives
// EncodeHalf and DecodeHalf unchanged.
#ifndef TRIBUTARY_COMMON_NUMERICS_HALF_H_
#define TRIBUTARY_COMMON_NUMERICS_HALF_H_

#include <cstdint>

#include "proto/job.pb.h"

namespace tributary {

using WireDtype = ExchangeSpec::WireDtype;

// Bytes of one number of the format.
int64_t WireDtypeBytes(WireDtype dtype);

// values[i] = rounded values[i]. FLOAT32: nothing is done.
void RoundTo(WireDtype dtype, float* values, int64_t count);

// to[i] = rounded from[i]; FLOAT32: a copy. The arrays must not overlap.
void RoundedCopy(WireDtype dtype, const float* from, float* to, int64_t count);

// Sums in float32, rounded: what a node of the reduction tree holds. FLOAT32:
// AddInto and Sum2 of vector_ops.h. Arrays must not overlap.
//
// sum[i] = rounded (rounded sum[i] + rounded x[i])
void RoundAndAdd(WireDtype dtype, const float* x, float* sum, int64_t count);
// sum[i] = rounded (sum[i] + x[i]), of numbers that are rounded already.
void AddRounded(WireDtype dtype, const float* x, float* sum, int64_t count);
// out[i] = rounded (a[i] + b[i]), of numbers that are rounded already.
void SumRounded(WireDtype dtype, const float* a, const float* b, float* out,
                int64_t count);

// Rounds `count` numbers and writes them as 16 bits each, little-endian.
// `dtype` is not FLOAT32. `to` may have any address.
void EncodeHalf(WireDtype dtype, const float* from, void* to, int64_t count);

// Reads what EncodeHalf writes. Any bytes are numbers.
void DecodeHalf(WireDtype dtype, const void* from, float* to, int64_t count);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_NUMERICS_HALF_H_
