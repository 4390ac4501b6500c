// Rounding to the 16-bit formats of exchange.wire_dtype, and conversion to and
// from them.
//
// Rounds to nearest, ties to even. Values that are too large for the format
// become infinity (in FLOAT16, magnitudes from 65520). Infinity is preserved.
// Every NaN becomes one fixed quiet NaN, except that its sign is preserved.
// Denormal float32 numbers count as zero (see flush_denormals.h), so BFLOAT16
// has no denormal numbers. FLOAT16 has them: multiples of 2^-24. The results
// have the same bits on every x86-64, regardless of the thread's treatment of
// denormal numbers.
//
// Rounding is idempotent. EncodeHalf followed by DecodeHalf returns rounded
// numbers unchanged.
#ifndef TRIBUTARY_COMMON_NUMERICS_HALF_H_
#define TRIBUTARY_COMMON_NUMERICS_HALF_H_

#include <cstdint>

#include "proto/job.pb.h"

namespace tributary {

using WireDtype = ExchangeSpec::WireDtype;

// Returns the size in bytes of one number of format `dtype`.
int64_t WireDtypeBytes(WireDtype dtype);

// Replaces each of `count` values by its rounded value. Does nothing for
// FLOAT32.
void RoundTo(WireDtype dtype, float* values, int64_t count);

// Computes to[i] = rounded from[i]. For FLOAT32, copies the values unchanged.
// The arrays must not overlap.
void RoundedCopy(WireDtype dtype, const float* from, float* to, int64_t count);

// The functions RoundAndAdd, AddRounded and SumRounded add float32 numbers and
// round the sums to the format `dtype`. Gradients are added with these
// functions, in the order of a binary tree (see reduction_tree.h). For FLOAT32
// they call AddInto and Sum2 of vector_ops.h, which do not round. The arrays
// must not overlap.
//
// RoundAndAdd computes sum[i] = rounded (rounded sum[i] + rounded x[i]).
void RoundAndAdd(WireDtype dtype, const float* x, float* sum, int64_t count);
// Computes sum[i] = rounded (sum[i] + x[i]), for operands that are already
// rounded.
void AddRounded(WireDtype dtype, const float* x, float* sum, int64_t count);
// Computes out[i] = rounded (a[i] + b[i]), for operands that are already
// rounded.
void SumRounded(WireDtype dtype, const float* a, const float* b, float* out,
                int64_t count);

// Rounds `count` numbers and writes each as 16 bits, little-endian. `dtype`
// must not be FLOAT32. `to` may be unaligned.
void EncodeHalf(WireDtype dtype, const float* from, void* to, int64_t count);

// Decodes `count` numbers from the output of EncodeHalf. All bit patterns are
// valid.
void DecodeHalf(WireDtype dtype, const void* from, float* to, int64_t count);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_NUMERICS_HALF_H_
