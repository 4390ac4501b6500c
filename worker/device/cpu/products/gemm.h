// Matrix products.
#ifndef TRIBUTARY_WORKER_DEVICE_CPU_PRODUCTS_GEMM_H_
#define TRIBUTARY_WORKER_DEVICE_CPU_PRODUCTS_GEMM_H_

#include <cstdint>

namespace tributary::cpu {

// A row-major float32 matrix, or its transpose, in the caller's memory.
struct Operand {
  const float* data = nullptr;
  int64_t stride = 0;  // Number of elements between the starts of stored rows.
  bool transposed = false;  // True if the memory holds the transpose.
};

// Computes C = A B for matrices C[m, n], A[m, k] and B[k, n]. With
// `accumulate`, adds the product to C instead. C must not overlap A or B. Runs
// on the calling thread only. For equal arguments, the results are
// bit-identical on processors of the same kind.
void Gemm(int64_t m, int64_t n, int64_t k, Operand a, Operand b,
          bool accumulate, float* c, int64_t c_stride);

}  // namespace tributary::cpu

#endif  // TRIBUTARY_WORKER_DEVICE_CPU_PRODUCTS_GEMM_H_
