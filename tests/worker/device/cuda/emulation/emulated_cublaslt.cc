// Stands in for cuBLASLt: makes the products that its descriptors say, in
// plain loops. Ends the process where the library would refuse a call, read
// what is not there, or give other bits from run to run.
#include <cublasLt.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <vector>

#include "tests/worker/device/cuda/emulation/emulated_libraries.h"
#include "tests/worker/device/cuda/emulation/emulated_streams.h"
#include "worker/device/cuda/kernels/bfloat16.h"
#include "worker/device/cuda/libraries/cublaslt_library.h"

struct EmulatedCublasLt {};

struct EmulatedMatmulDesc {
  cublasComputeType_t compute_type;
  int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;
  void* aux = nullptr;
  int64_t aux_leading = 0;
};

struct EmulatedMatrixLayout {
  cudaDataType_t type;
  int64_t rows, columns, leading;
};

struct EmulatedMatmulPreference {
  uint64_t workspace_bytes = 0;
  uint32_t reductions = 0;
  uint32_t alignments[4] = {256, 256, 256, 256};
};

namespace {

using emulated_gpu::Check;
using tributary::cuda::Bfloat16;

constexpr size_t kWorkspaceBytes = 1000;
// Of the columns that are summed up at a time.
constexpr int64_t kBlock = 64;

bool HasBias(const EmulatedMatmulDesc& description) {
  return description.epilogue == CUBLASLT_EPILOGUE_BIAS ||
         description.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
}
bool HasBiasGradient(const EmulatedMatmulDesc& description) {
  return description.epilogue == CUBLASLT_EPILOGUE_BGRADB;
}
bool HasAux(const EmulatedMatmulDesc& description) {
  return description.epilogue == CUBLASLT_EPILOGUE_GELU_AUX ||
         description.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS ||
         description.epilogue == CUBLASLT_EPILOGUE_DGELU;
}

// A product's descriptors, and the sizes in them.
struct Product {
  Product(const EmulatedMatmulDesc& description, const EmulatedMatrixLayout& a,
          const EmulatedMatrixLayout& b, const EmulatedMatrixLayout& d)
      : description(description), a(a), b(b), d(d), m(d.rows), n(d.columns) {
    const bool transposed = description.transpose_a == CUBLAS_OP_T;
    k = transposed ? a.rows : a.columns;
    Check(m == (transposed ? a.columns : a.rows), "A has another size than D");
    const bool b_transposed = description.transpose_b == CUBLAS_OP_T;
    Check(n == (b_transposed ? b.rows : b.columns) &&
              k == (b_transposed ? b.columns : b.rows),
          "B has another size than A and D");
    Check(a.type == b.type, "factors of two types");
    Check(m > 0 && n > 0 && k > 0, "an empty product");
    Check(!HasAux(description) || (description.aux_leading >= m &&
                                   description.aux_leading % 8 == 0),
          "the leading dimension of an epilogue's matrix");
  }

  // What an algorithm is for.
  std::vector<int64_t> Key() const {
    return {description.compute_type,
            description.transpose_a,
            description.transpose_b,
            description.epilogue,
            description.aux_leading,
            a.type,
            d.type,
            m,
            n,
            k,
            a.leading,
            b.leading,
            d.leading};
  }
  uint64_t Fingerprint() const {
    uint64_t hash = 14695981039346656037u;  // FNV-1a.
    for (const int64_t part : Key()) {
      hash = (hash ^ static_cast<uint64_t>(part)) * 1099511628211u;
    }
    return hash;
  }

  EmulatedMatmulDesc description;
  EmulatedMatrixLayout a, b, d;
  int64_t m, n, k;
};

// Elements of either type.
float Load(cudaDataType_t type, const void* from, int64_t place) {
  return type == CUDA_R_32F
             ? static_cast<const float*>(from)[place]
             : static_cast<float>(static_cast<const Bfloat16*>(from)[place]);
}
void Store(cudaDataType_t type, float value, void* to, int64_t place) {
  if (type == CUDA_R_32F) {
    static_cast<float*>(to)[place] = value;
  } else {
    static_cast<Bfloat16*>(to)[place] = value;
  }
}

// With a tanh of 11 bits, like that of GPUs' own instruction.
double GeluGate(double x) {
  const double tanh =
      std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + emulated_gpu::RoundToTf32(static_cast<float>(tanh)));
}
double GeluSlope(double x) {
  const double gate = GeluGate(x);
  const double inner = std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
  return gate + x * 2 * inner * gate * (1 - gate);
}

// Where a product's matrices are.
struct Pointers {
  const void* a;
  const void* b;
  void* d;
  float alpha, beta;
};

// op(factor), read along the sum: [k, columns], columns filled up to `padded`.
std::vector<float> Pack(const Product& product,
                        const EmulatedMatrixLayout& layout, const void* factor,
                        bool sums_along_rows, int64_t columns, int64_t padded) {
  const bool rounds =
      product.description.compute_type == CUBLAS_COMPUTE_32F_FAST_TF32;
  std::vector<float> packed(static_cast<size_t>(product.k * padded));
  for (int64_t p = 0; p < product.k; ++p) {
    for (int64_t i = 0; i < columns; ++i) {
      const float value = Load(
          layout.type, factor,
          sums_along_rows ? p + i * layout.leading : i + p * layout.leading);
      packed[p * padded + i] =
          rounds ? emulated_gpu::RoundToTf32(value) : value;
    }
  }
  return packed;
}

float Finish(const Product& product, float sum, int64_t i, int64_t j) {
  const EmulatedMatmulDesc& description = product.description;
  const int64_t aux = i + j * description.aux_leading;
  if (HasBias(description)) sum += Load(product.d.type, description.bias, i);
  switch (description.epilogue) {
    case CUBLASLT_EPILOGUE_GELU_AUX:
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
      Store(product.d.type, sum, description.aux, aux);
      return static_cast<float>(sum * GeluGate(sum));
    case CUBLASLT_EPILOGUE_DGELU:
      return static_cast<float>(
          sum * GeluSlope(Load(product.d.type, description.aux, aux)));
    default:
      return sum;
  }
}

// Whether a product is rounded before it is added to something, as on an H100.
bool RoundsProduct(const Product& product, const Pointers& pointers) {
  const bool unaligned = product.m % 8 != 0 || product.k % 8 != 0;
  return product.d.type == CUDA_R_16BF &&
         (pointers.beta != 0 || (unaligned && (HasBias(product.description) ||
                                               HasAux(product.description))));
}

void Multiply(const Product& product, const Pointers& pointers) {
  const int64_t padded = (product.m + kBlock - 1) / kBlock * kBlock;
  const EmulatedMatmulDesc& description = product.description;
  const std::vector<float> a =
      Pack(product, product.a, pointers.a,
           description.transpose_a == CUBLAS_OP_T, product.m, padded);
  const std::vector<float> b =
      Pack(product, product.b, pointers.b,
           description.transpose_b == CUBLAS_OP_N, product.n, product.n);
  for (int64_t j = 0; j < product.n && HasBiasGradient(description); ++j) {
    float sum = 0;
    for (int64_t p = 0; p < product.k; ++p) sum += b[p * product.n + j];
    Store(product.d.type, sum, description.bias, j);
  }
  for (int64_t j = 0; j < product.n; ++j) {
    for (int64_t first = 0; first < product.m; first += kBlock) {
      float sums[kBlock] = {};
      for (int64_t p = 0; p < product.k; ++p) {
        const float* const row = a.data() + p * padded + first;
        const float factor = b[p * product.n + j];
        for (int64_t t = 0; t < kBlock; ++t) sums[t] += row[t] * factor;
      }
      const int64_t end = std::min(first + kBlock, product.m);
      for (int64_t i = first; i < end; ++i) {
        const int64_t place = i + j * product.d.leading;
        float sum = pointers.alpha * sums[i - first];
        if (RoundsProduct(product, pointers)) sum = float{Bfloat16(sum)};
        if (pointers.beta != 0) {
          sum += pointers.beta * Load(product.d.type, pointers.d, place);
        }
        Store(product.d.type, Finish(product, sum, i, j), pointers.d, place);
      }
    }
  }
}

// Like some versions of the library, does not support an epilogue for a single
// row of float32 numbers, GELU for rows whose length is not a multiple of 16,
// or column sums of float32 numbers or of a number of columns that is not a
// multiple of 8.
bool IsSupported(const Product& product) {
  if (HasBias(product.description) && product.m == 1 &&
      product.d.type == CUDA_R_32F) {
    return false;
  }
  if (HasBiasGradient(product.description) &&
      (product.n % 8 != 0 || product.b.type == CUDA_R_32F)) {
    return false;
  }
  return !HasAux(product.description) || product.m % 16 == 0;
}

void CheckAligned(const void* pointer, uint64_t alignment) {
  Check(pointer != nullptr, "a matrix that is not there");
  Check(reinterpret_cast<uintptr_t>(pointer) % alignment == 0,
        "a matrix is not aligned as was promised");
}

template <typename T>
void Take(const void* value, size_t bytes, T* attribute) {
  Check(bytes == sizeof(T), "an attribute of another size");
  std::memcpy(attribute, value, bytes);
}

}  // namespace

const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_EXECUTION_FAILED
             ? "CUBLAS_STATUS_EXECUTION_FAILED"
             : "emulated error";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new EmulatedCublasLt();
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description,
                                        cublasComputeType_t compute_type,
                                        cudaDataType_t scale_type) {
  Check(scale_type == CUDA_R_32F, "alpha and beta are floats");
  *description = new EmulatedMatmulDesc{compute_type};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  delete description;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(
    cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t attribute,
    const void* value, size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      Take(value, bytes, &description->transpose_a);
      break;
    case CUBLASLT_MATMUL_DESC_TRANSB:
      Take(value, bytes, &description->transpose_b);
      break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      Take(value, bytes, &description->epilogue);
      break;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      Take(value, bytes, &description->bias);
      break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      Take(value, bytes, &description->aux);
      break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      Take(value, bytes, &description->aux_leading);
      break;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout,
                                          cudaDataType_t type, uint64_t rows,
                                          uint64_t columns, int64_t leading) {
  Check(leading >= static_cast<int64_t>(rows), "columns overlap");
  *layout = new EmulatedMatrixLayout{type, static_cast<int64_t>(rows),
                                     static_cast<int64_t>(columns), leading};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(
    cublasLtMatmulPreference_t* preference) {
  *preference = new EmulatedMatmulPreference();
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(
    cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t preference,
    cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
    size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      Take(value, bytes, &preference->workspace_bytes);
      break;
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      Take(value, bytes, &preference->reductions);
      break;
    default:
      Take(value, bytes,
           &preference->alignments[attribute -
                                   CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES]);
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
    cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
    cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
    cublasLtMatmulPreference_t preference, int requested,
    cublasLtMatmulHeuristicResult_t* results, int* count) {
  Check(handle != nullptr && requested > 0, "nothing is asked for");
  Check(c == d, "C lies elsewhere than D");
  const Product product(*description, *a, *b, *d);
  Check((preference->reductions & ~CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) == 0,
        "parts of sums may be rounded, or added as they come");
  *count = 0;
  if (!IsSupported(product) || preference->workspace_bytes < kWorkspaceBytes) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  *count = 1;
  *results = {};
  results->state = CUBLAS_STATUS_SUCCESS;
  results->workspaceSize = kWorkspaceBytes;
  results->algo.data[0] = product.Fingerprint();
  std::copy_n(preference->alignments, 4, results->algo.data + 1);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
    const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
    const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
    const void* c, cublasLtMatrixLayout_t c_layout, void* d,
    cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm,
    void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  Check(handle != nullptr, "no handle");
  Check(c == d && c_layout == d_layout, "C lies elsewhere than D");
  const Product product(*description, *a_layout, *b_layout, *d_layout);
  Check(algorithm->data[0] == product.Fingerprint(),
        "an algorithm for another product");
  Check(workspace != nullptr && workspace_bytes >= kWorkspaceBytes,
        "a workspace that is too small");
  CheckAligned(a, algorithm->data[1]);
  CheckAligned(b, algorithm->data[2]);
  CheckAligned(d, std::max(algorithm->data[3], algorithm->data[4]));
  if (HasAux(*description)) CheckAligned(description->aux, 16);
  if (HasBias(*description) || HasBiasGradient(*description)) {
    Check(description->bias != nullptr, "no bias");
  }
  if (emulated_gpu::CheckLaunch(stream) != cudaSuccess ||
      emulated_gpu::Fails(emulated_gpu::Failing::kProduct)) {
    return CUBLAS_STATUS_EXECUTION_FAILED;
  }
  // Those two are the host's, which may change them at once.
  const Pointers pointers = {a, b, d, *static_cast<const float*>(alpha),
                             *static_cast<const float*>(beta)};
  emulated_gpu::EnqueueWork(stream, [=] {
    std::memset(workspace, 0xff, workspace_bytes);
    Multiply(product, pointers);
  });
  return CUBLAS_STATUS_SUCCESS;
}

namespace tributary::cuda {

absl::StatusOr<const CublasLt*> LoadCublasLt() {
  static constexpr CublasLt kFunctions = {
      &cublasLtCreate,
      &cublasLtDestroy,
      &cublasLtGetStatusString,
      &cublasLtMatmul,
      &cublasLtMatmulAlgoGetHeuristic,
      &cublasLtMatmulDescCreate,
      &cublasLtMatmulDescDestroy,
      &cublasLtMatmulDescSetAttribute,
      &cublasLtMatmulPreferenceCreate,
      &cublasLtMatmulPreferenceDestroy,
      &cublasLtMatmulPreferenceSetAttribute,
      &cublasLtMatrixLayoutCreate,
      &cublasLtMatrixLayoutDestroy,
  };
  return &kFunctions;
}

}  // namespace tributary::cuda
