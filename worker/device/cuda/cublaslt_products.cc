#include "worker/device/cuda/cublaslt_products.h"

#include <cstddef>
#include <type_traits>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "worker/device/cuda/kernels/bfloat16.h"
#include "worker/device/cuda/libraries/cublaslt_library.h"

namespace tributary::cuda {
namespace {

// NVIDIA's recommendation for Hopper. Affects the bits: it bounds the number of
// parts that a sum may be split into.
constexpr size_t kMaximumWorkspace = size_t{32} << 20;

// If the leading dimensions of bfloat16 matrices are multiples of this number,
// the library rounds only the result of the epilogue; otherwise, it rounds the
// product, too (seen on an H100). Epilogues with a second matrix require
// multiples.
constexpr int64_t kEpilogueMultiple = 8;

// Shapes repeat from step to step. If there are more, all plans are discarded
// and found again, which only costs time.
constexpr size_t kMaximumPlans = 1024;

// CublasLtProducts::Create has loaded it.
const CublasLt& Lt() { return **LoadCublasLt(); }

absl::Status CublasToStatus(cublasStatus_t status, absl::string_view what) {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  cudaGetLastError();  // Clears the error, so that no later call reports it.
  const absl::StatusCode code = status == CUBLAS_STATUS_ALLOC_FAILED
                                    ? absl::StatusCode::kResourceExhausted
                                    : absl::StatusCode::kInternal;
  return absl::Status(code,
                      absl::StrCat(what, ": ", Lt().GetStatusString(status)));
}

struct Destroy {
  void operator()(cublasLtMatmulDesc_t description) {
    Lt().MatmulDescDestroy(description);
  }
  void operator()(cublasLtMatrixLayout_t layout) {
    Lt().MatrixLayoutDestroy(layout);
  }
  void operator()(cublasLtMatmulPreference_t preference) {
    Lt().MatmulPreferenceDestroy(preference);
  }
};
template <typename Pointer>
using Owned = std::unique_ptr<std::remove_pointer_t<Pointer>, Destroy>;

}  // namespace

struct CublasLtPlan {
  absl::Status status;  // Unimplemented if no algorithm supports the product.
  Owned<cublasLtMatmulDesc_t> description;
  Owned<cublasLtMatrixLayout_t> a, b, d;
  cublasLtMatmulAlgo_t algorithm = {};
  size_t workspace_bytes = 0;
};

namespace {

template <typename T>
absl::Status Set(cublasLtMatmulDesc_t description,
                 cublasLtMatmulDescAttributes_t attribute, const T& value) {
  return CublasToStatus(Lt().MatmulDescSetAttribute(description, attribute,
                                                    &value, sizeof(value)),
                        "cublasLtMatmulDescSetAttribute");
}

template <typename T>
absl::Status Set(cublasLtMatmulPreference_t preference,
                 cublasLtMatmulPreferenceAttributes_t attribute,
                 const T& value) {
  return CublasToStatus(Lt().MatmulPreferenceSetAttribute(
                            preference, attribute, &value, sizeof(value)),
                        "cublasLtMatmulPreferenceSetAttribute");
}

absl::StatusOr<Owned<cublasLtMatmulDesc_t>> Describe(
    const Product& product, cublasComputeType_t compute_type) {
  cublasLtMatmulDesc_t description;
  TRIBUTARY_RETURN_IF_ERROR(CublasToStatus(
      Lt().MatmulDescCreate(&description, compute_type, CUDA_R_32F),
      "cublasLtMatmulDescCreate"));
  Owned<cublasLtMatmulDesc_t> owned(description);
  const auto operation = [](bool transpose) {
    return static_cast<int32_t>(transpose ? CUBLAS_OP_T : CUBLAS_OP_N);
  };
  TRIBUTARY_RETURN_IF_ERROR(Set(description, CUBLASLT_MATMUL_DESC_TRANSA,
                                operation(product.transpose_a)));
  TRIBUTARY_RETURN_IF_ERROR(Set(description, CUBLASLT_MATMUL_DESC_TRANSB,
                                operation(product.transpose_b)));
  TRIBUTARY_RETURN_IF_ERROR(Set(description, CUBLASLT_MATMUL_DESC_EPILOGUE,
                                static_cast<uint32_t>(product.epilogue)));
  if (product.HasAux()) {
    TRIBUTARY_RETURN_IF_ERROR(
        Set(description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, product.m));
  }
  return owned;
}

// Sets the addresses for this call.
absl::Status SetPointers(const Product& product, const Matrices& matrices,
                         cublasLtMatmulDesc_t description) {
  if (product.HasBias()) {
    TRIBUTARY_RETURN_IF_ERROR(
        Set(description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, matrices.bias));
  }
  if (product.HasAux()) {
    TRIBUTARY_RETURN_IF_ERROR(Set(
        description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, matrices.aux));
  }
  return absl::OkStatus();
}

absl::StatusOr<Owned<cublasLtMatrixLayout_t>> Layout(cudaDataType_t type,
                                                     int64_t rows,
                                                     int64_t columns) {
  cublasLtMatrixLayout_t layout;
  TRIBUTARY_RETURN_IF_ERROR(CublasToStatus(
      Lt().MatrixLayoutCreate(&layout, type, rows, columns, rows),
      "cublasLtMatrixLayoutCreate"));
  return Owned<cublasLtMatrixLayout_t>(layout);
}

absl::StatusOr<Owned<cublasLtMatmulPreference_t>> Preferences(
    uint32_t alignment) {
  cublasLtMatmulPreference_t preference;
  TRIBUTARY_RETURN_IF_ERROR(
      CublasToStatus(Lt().MatmulPreferenceCreate(&preference),
                     "cublasLtMatmulPreferenceCreate"));
  Owned<cublasLtMatmulPreference_t> owned(preference);
  TRIBUTARY_RETURN_IF_ERROR(Set(preference,
                                CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                static_cast<uint64_t>(kMaximumWorkspace)));
  // Permits unsplit sums, or parts that a second step adds in order.
  TRIBUTARY_RETURN_IF_ERROR(
      Set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
          static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)));
  for (const auto attribute : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                               CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                               CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                               CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    TRIBUTARY_RETURN_IF_ERROR(Set(preference, attribute, alignment));
  }
  return owned;
}

// `matrices` may be any matrices of the product.
absl::StatusOr<CublasLtPlan> MakePlan(cublasLtHandle_t handle,
                                      const Product& product,
                                      cublasComputeType_t compute_type,
                                      const Matrices& matrices) {
  CublasLtPlan plan;
  TRIBUTARY_ASSIGN_OR_RETURN(plan.description, Describe(product, compute_type));
  TRIBUTARY_RETURN_IF_ERROR(
      SetPointers(product, matrices, plan.description.get()));
  const auto [m, n, k] = std::make_tuple(product.m, product.n, product.k);
  TRIBUTARY_ASSIGN_OR_RETURN(plan.a, product.transpose_a
                                         ? Layout(product.factor_type, k, m)
                                         : Layout(product.factor_type, m, k));
  TRIBUTARY_ASSIGN_OR_RETURN(plan.b, product.transpose_b
                                         ? Layout(product.factor_type, n, k)
                                         : Layout(product.factor_type, k, n));
  TRIBUTARY_ASSIGN_OR_RETURN(plan.d, Layout(product.result_type, m, n));
  TRIBUTARY_ASSIGN_OR_RETURN(const Owned<cublasLtMatmulPreference_t> preference,
                             Preferences(product.alignment));
  cublasLtMatmulHeuristicResult_t result = {};
  int count = 0;
  const cublasStatus_t status = Lt().MatmulAlgoGetHeuristic(
      handle, plan.description.get(), plan.a.get(), plan.b.get(), plan.d.get(),
      plan.d.get(), preference.get(), /*requestedAlgoCount=*/1, &result,
      &count);
  if (status != CUBLAS_STATUS_NOT_SUPPORTED) {
    TRIBUTARY_RETURN_IF_ERROR(
        CublasToStatus(status, "cublasLtMatmulAlgoGetHeuristic"));
  }
  if (count == 0 || result.state != CUBLAS_STATUS_SUCCESS) {
    return absl::UnimplementedError(
        absl::StrCat("cuBLASLt has no algorithm for a product of ", m, " x ", k,
                     " and ", k, " x ", n));
  }
  plan.algorithm = result.algo;
  plan.workspace_bytes = result.workspaceSize;
  return plan;
}

uint32_t AlignmentOf(const Product& product, const Matrices& matrices) {
  for (const void* matrix :
       {matrices.a, matrices.b, static_cast<const void*>(matrices.d),
        matrices.bias, matrices.aux}) {
    if (reinterpret_cast<uintptr_t>(matrix) % 16 != 0) {
      return product.factor_type == CUDA_R_32F ? sizeof(float)
                                               : sizeof(Bfloat16);
    }
  }
  return 16;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CublasLtProducts>> CublasLtProducts::Create(
    Precision precision, CudaContext* context) {
  TRIBUTARY_RETURN_IF_ERROR(LoadCublasLt().status());
  cublasLtHandle_t handle;
  TRIBUTARY_RETURN_IF_ERROR(
      CublasToStatus(Lt().Create(&handle), "cublasLtCreate"));
  return absl::WrapUnique(new CublasLtProducts(handle, precision, context));
}

CublasLtProducts::CublasLtProducts(cublasLtHandle_t handle, Precision precision,
                                   CudaContext* context)
    : context_(context),
      handle_(handle),
      compute_type_(precision == Precision::kTf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                  : CUBLAS_COMPUTE_32F) {}

CublasLtProducts::~CublasLtProducts() { Lt().Destroy(handle_); }

bool CublasLtProducts::RoundsOnce(const Product& product) {
  return product.result_type == CUDA_R_32F ||
         (product.m % kEpilogueMultiple == 0 &&
          product.k % kEpilogueMultiple == 0);
}

const CublasLtPlan& CublasLtProducts::PlanOf(const Product& product,
                                             const Matrices& matrices) {
  const auto found = plans_.find(product);
  if (found != plans_.end()) return *found->second;
  if (plans_.size() >= kMaximumPlans) plans_.clear();
  auto plan = std::make_unique<CublasLtPlan>();
  absl::StatusOr<CublasLtPlan> made =
      MakePlan(handle_, product, compute_type_, matrices);
  if (made.ok()) {
    *plan = *std::move(made);
  } else {
    plan->status = absl::Status(made.status().code(),
                                absl::StrCat(made.status().message(),
                                             " on cuda:", context_->ordinal()));
  }
  return *(plans_[product] = std::move(plan));
}

absl::Status CublasLtProducts::Multiply(Stream& stream, Product product,
                                        const Matrices& matrices,
                                        bool accumulate) {
  TRIBUTARY_RETURN_IF_ERROR(stream.status());
  product.alignment = AlignmentOf(product, matrices);
  const CublasLtPlan& plan = PlanOf(product, matrices);
  TRIBUTARY_RETURN_IF_ERROR(plan.status);
  TRIBUTARY_RETURN_IF_ERROR(
      SetPointers(product, matrices, plan.description.get()));
  void* const workspace = context_->scratch().Bytes(plan.workspace_bytes);
  TRIBUTARY_RETURN_IF_ERROR(stream.status());
  const float one = 1, beta = accumulate ? 1 : 0;
  return CublasToStatus(
      Lt().Matmul(handle_, plan.description.get(), &one, matrices.a,
                  plan.a.get(), matrices.b, plan.b.get(), &beta, matrices.d,
                  plan.d.get(), matrices.d, plan.d.get(), &plan.algorithm,
                  workspace, plan.workspace_bytes, stream.get()),
      absl::StrCat("cublasLtMatmul on cuda:", stream.ordinal()));
}

bool CublasLtProducts::MultiplyWithEpilogue(Stream& stream,
                                            const Product& product,
                                            const Matrices& matrices,
                                            bool accumulate) {
  if (AlignmentOf(product, matrices) < product.alignment) return false;
  // Versions of the library report an unsupported epilogue differently.
  const absl::Status& planned = PlanOf(product, matrices).status;
  if (!planned.ok() && !absl::IsResourceExhausted(planned)) return false;
  stream.Check(Multiply(stream, product, matrices, accumulate));
  return true;
}

}  // namespace tributary::cuda
