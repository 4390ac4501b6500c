// Matrix products.
#ifndef TRIBUTARY_WORKER_DEVICE_CPU_PRODUCTS_GEMM_H_
#define TRIBUTARY_WORKER_DEVICE_CPU_PRODUCTS_GEMM_H_

#include <cstdint>

namespace tributary::cpu {

// A row-major float32 matrix, or its transpose, in memory of the caller.
struct Operand {
  const float* data = nullptr;
  int64_t stride = 0;       // Elements from one stored row to the next.
  bool transposed = false;  // Stored as its transpose.
};

// C[m, n] = A[m, k] B[k, n], or += with `accumulate`. C may not overlap A or B.
// One thread, the caller's. The same arguments give the same bits on the same
// kind of processor.
void Gemm(int64_t m, int64_t n, int64_t k, Operand a, Operand b,
          bool accumulate, float* c, int64_t c_stride);

}  // namespace tributary::cpu

#endif  // TRIBUTARY_WORKER_DEVICE_CPU_PRODUCTS_GEMM_H_
