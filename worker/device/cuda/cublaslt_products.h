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

// D[m, n] = epilogue(op(A)[m, k] op(B)[k, n]), column-major and dense. With
// transposition, A is stored as [k, m] and B as [n, k].
struct Product {
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  // DEFAULT, BIAS (adds bias[m] to each column), GELU_AUX and GELU_AUX_BIAS
  // (write the input of GELU to `aux`), DGELU (multiplies by the derivative of
  // GELU at `aux`), or BGRADB (also writes the sums of op(B) over k to
  // bias[n]).
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  // Type of A and B, and type of D, bias and aux.
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

// Queues matrix products, and remembers the algorithm for each shape. The
// library's heuristic chooses it once, among those that add the parts of a
// split sum in order. The bits therefore depend only on the shape, the GPU and
// the version of cuBLASLt. Not thread-safe.
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
  // epilogue. Otherwise, and always if it accumulates in bfloat16, the library
  // also rounds the product itself. The product must have `transpose_b` unset.
  static bool RoundsOnce(const Product& product);

  // Queues the product; product.alignment is derived from `matrices`. With
  // `accumulate`, adds it to D. Returns Unimplemented if the library has no
  // algorithm for the product, and the first error of the stream.
  absl::Status Multiply(Stream& stream, Product product,
                        const Matrices& matrices, bool accumulate);

  // Multiplies if the library has an algorithm for the product with its
  // epilogue. Otherwise returns false. The stream records errors.
  bool MultiplyWithEpilogue(Stream& stream, const Product& product,
                            const Matrices& matrices, bool accumulate);

 private:
  CublasLtProducts(cublasLtHandle_t handle, Precision precision,
                   CudaContext* context);
  // Returns the plan, found once for each product.
  const CublasLtPlan& PlanOf(const Product& product, const Matrices& matrices);

  CudaContext* const context_;
  const cublasLtHandle_t handle_;
  const cublasComputeType_t compute_type_;
  std::map<Product, std::unique_ptr<CublasLtPlan>> plans_;
};

}  // namespace tributary::cuda

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_CUBLASLT_PRODUCTS_H_
