// Matrix products by cuBLASLt, with what its epilogues compute from them.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_CUBLASLT_PRODUCTS_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_CUBLASLT_PRODUCTS_H_

#include <cublasLt.h>

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/cuda/stream.h"
#include "worker/device/cuda/cuda_context.h"
#include "worker/device/ops/real.h"

namespace tributary::cuda {

// D[m, n] = epilogue(op(A)[m, k] op(B)[k, n]), column-major and dense. A is
// stored as [k, m] if transpose_a is true, and B as [n, k] if transpose_b is
// true.
struct Product {
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  // One of these epilogues:
  //   DEFAULT: none.
  //   BIAS: adds bias[m] to each column.
  //   GELU_AUX: applies GELU, and writes the input of GELU to `aux`.
  //   GELU_AUX_BIAS: applies BIAS, then GELU_AUX.
  //   DGELU: multiplies by the derivative of GELU at `aux`.
  //   BGRADB: also writes the sums of op(B) over k to bias[n].
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  // `factor_type` is the type of A and B, and `result_type` that of D, bias and
  // aux.
  cudaDataType_t factor_type = CUDA_R_32F, result_type = CUDA_R_32F;
  // Alignment of all matrices in bytes: 16, for the widest loads, or the size
  // of an element.
  uint32_t alignment = 16;

  auto Key() const {
    return std::tie(m, n, k, transpose_a, transpose_b, epilogue, factor_type,
                    result_type, alignment);
  }
  bool operator<(const Product& other) const { return Key() < other.Key(); }

  bool HasBias() const {
    return epilogue == CUBLASLT_EPILOGUE_BIAS ||
           epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS ||
           epilogue == CUBLASLT_EPILOGUE_BGRADB;
  }
  bool HasAux() const {
    return epilogue == CUBLASLT_EPILOGUE_GELU_AUX ||
           epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS ||
           epilogue == CUBLASLT_EPILOGUE_DGELU;
  }
};

// The addresses of a product's matrices in GPU memory.
struct Matrices {
  const void* a;
  const void* b;
  void* d;
  const void* bias = nullptr;  // An output with BGRADB.
  const void* aux = nullptr;   // Same shape as D.
};

// The algorithm and descriptors for a product.
struct CublasLtPlan;

// Queues matrix products. For each shape, the library's heuristic chooses the
// algorithm, among those that add the parts of a split sum in order; the choice
// is remembered. For equal operands, the bits of the result therefore depend
// only on the shape, the GPU and the version of cuBLASLt. Not thread-safe.
class CublasLtProducts {
 public:
  // `context` must outlive this object. Returns the errors of LoadCublasLt and
  // cublasLtCreate.
  static absl::StatusOr<std::unique_ptr<CublasLtProducts>> Create(
      Precision precision, CudaContext* context);
  ~CublasLtProducts();
  CublasLtProducts(const CublasLtProducts&) = delete;
  CublasLtProducts& operator=(const CublasLtProducts&) = delete;

  // Returns true if the library rounds only the result of the product's
  // epilogue, and false if it also rounds the product before the epilogue.
  // Valid only without `accumulate`: with it, the library always rounds a
  // bfloat16 product before adding it to D. `transpose_b` must be false.
  static bool RoundsOnce(const Product& product);

  // Queues the product. With `accumulate`, adds the product to D instead of
  // overwriting D. Ignores product.alignment, and determines the alignment from
  // `matrices`. Returns Unimplemented if the library has no algorithm for the
  // product, the library's other errors, and the stream's first error if the
  // stream has failed.
  absl::Status Multiply(Stream& stream, Product product,
                        const Matrices& matrices, bool accumulate);

  // Queues the product and returns true. If the library has no algorithm for
  // the product with its epilogue, or a matrix is not aligned to
  // product.alignment, queues nothing and returns false. Errors are recorded in
  // the stream.
  bool MultiplyWithEpilogue(Stream& stream, const Product& product,
                            const Matrices& matrices, bool accumulate);

 private:
  CublasLtProducts(cublasLtHandle_t handle, Precision precision,
                   CudaContext* context);
  // Returns the plan for `product`, and makes the plan if there is none yet.
  // `matrices` may be any matrices of the product.
  const CublasLtPlan& PlanOf(const Product& product, const Matrices& matrices);

  CudaContext* const context_;
  const cublasLtHandle_t handle_;
  const cublasComputeType_t compute_type_;
  std::map<Product, std::unique_ptr<CublasLtPlan>> plans_;
};

}  // namespace tributary::cuda

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_CUBLASLT_PRODUCTS_H_
