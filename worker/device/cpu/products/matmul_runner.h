// Matrix products using oneDNN's primitives, which support bfloat16.
#ifndef TRIBUTARY_WORKER_DEVICE_CPU_PRODUCTS_MATMUL_RUNNER_H_
#define TRIBUTARY_WORKER_DEVICE_CPU_PRODUCTS_MATMUL_RUNNER_H_

#include <cstdint>
#include <map>
#include <memory>

#include "worker/device/ops/linear_ops.h"
#include "worker/device/ops/real.h"

namespace tributary::cpu {

// Returns true if the processor has instructions that multiply bfloat16 numbers
// (AVX512_BF16 or AMX). On other processors oneDNN has no primitives for
// bfloat16, or only slow ones.
bool MultipliesBfloat16();

class MatmulPlan;

// Computes the products of linear layers; formulas as in
// worker/device/ops/linear_ops.h, with sums in float32. The first call of a
// method for a shape generates code with oneDNN. Keeps this code for up to 512
// products, each of one method and one shape. Not thread-safe; instances are
// independent.
class MatmulRunner {
 public:
  // Operands and results have the number format `precision`, except `bias` and
  // `dweight`, which are float32. kBfloat16 requires that MultipliesBfloat16()
  // returns true.
  explicit MatmulRunner(Precision precision);
  ~MatmulRunner();

  // Computes y = x weight^T + bias. `bias` may be null.
  void Forward(const LinearShape& shape, const void* x, const void* weight,
               const float* bias, void* y);
  void BackwardInput(const LinearShape& shape, const void* dy,
                     const void* weight, bool accumulate, void* dx);
  void BackwardWeight(const LinearShape& shape, const void* x, const void* dy,
                      bool accumulate, float* dweight);

 private:
  // The product C = A B of matrices C[m, n], A[m, k] and B[k, n]. With
  // `accumulate`, the product is added to C. With `has_bias`, bias[n] is added
  // to each row.
  struct Product {
    int64_t m = 0, n = 0, k = 0;
    // True if the memory of the operand holds its transpose.
    bool transposed_a = false, transposed_b = false;
    bool has_bias = false, accumulate = false;
    bool float32_result = false;  // If false, the result has type Real.
    bool operator<(const Product& other) const;
  };
  struct Matrices {
    const void* a;
    const void* b;
    const float* bias;  // Null without has_bias.
    void* c;
  };
  friend class MatmulPlan;

  void Multiply(const Product& product, const Matrices& matrices);

  const Precision precision_;
  std::map<Product, std::unique_ptr<MatmulPlan>> plans_;
};

}  // namespace tributary::cpu

#endif  // TRIBUTARY_WORKER_DEVICE_CPU_PRODUCTS_MATMUL_RUNNER_H_
