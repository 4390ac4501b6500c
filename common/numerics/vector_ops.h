// Element-wise operations on gradients. Results have the same bits on
// every x86-64 and every thread: operations are element-wise. Denormal numbers
// count as zero (see flush_denormals.h).
#ifndef TRIBUTARY_COMMON_NUMERICS_VECTOR_OPS_H_
#define TRIBUTARY_COMMON_NUMERICS_VECTOR_OPS_H_

#include <cstdint>

namespace tributary {

// Computes sum[i] += x[i]. The arrays must not overlap.
void AddInto(const float* x, float* sum, int64_t count);

// Computes out[i] = a[i] + b[i], with the same bits as AddInto. `out` must not
// overlap `a` or `b`.
void Sum2(const float* a, const float* b, float* out, int64_t count);

// Computes out[i] = a[i] - b[i]. `out` must not overlap `a` or `b`.
void Subtract(const float* a, const float* b, float* out, int64_t count);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_NUMERICS_VECTOR_OPS_H_
