// Linear layers using cuBLASLt. Products are in float32 (with TF32 only for
// kTf32), or of bfloat16 with sums in float32. The library's heuristic chooses
// the algorithm once for each shape, among those that add the parts of a split
// sum in order. The bits therefore depend only on the shape, the GPU and the
// version of cuBLASLt. In bfloat16 biases are rounded first, because the
// library has no other epilogue.
//
// cuBLASLt's matrices are column-major, so a row-major [rows, columns] is its
// [columns, rows], and products are transposed:
//   Y = X W^T    as  Y^T[outputs, rows] = W X^T
//   dX = dY W    as  dX^T[inputs, rows] = W^T dY^T
//   dW = dY^T X  as  dW^T[inputs, outputs] = X^T dY
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/device/cuda/cuda_ops.h"
#include "worker/device/cuda/kernels/bfloat16.h"
#include "worker/device/cuda/kernels/bias.h"
#include "worker/device/cuda/kernels/elementwise.h"
#include "worker/device/cuda/libraries/cublaslt_library.h"

namespace tributary::cuda {
namespace {

// NVIDIA's recommendation for Hopper. Affects the bits: it bounds the number of
// parts that a sum may be split into.
constexpr size_t kMaximumWorkspace = size_t{32} << 20;

// Required multiple of the leading dimension of an epilogue's second matrix.
// For bfloat16 matrices whose leading dimensions are not multiples of it, the
// library rounds a product before the epilogue (seen on an H100).
constexpr int64_t kEpilogueMultiple = 8;

// Shapes repeat from step to step. If there are more, all plans are discarded
// and found again, which only costs time.
constexpr size_t kMaximumPlans = 1024;

// CreateLinearOps has loaded it.
const CublasLt& Lt() { return **LoadCublasLt(); }

absl::Status ToStatus(cublasStatus_t status, absl::string_view what) {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  cudaGetLastError();  // Clears the error, so that no later call reports it.
  const absl::StatusCode code = status == CUBLAS_STATUS_ALLOC_FAILED
                                    ? absl::StatusCode::kResourceExhausted
                                    : absl::StatusCode::kInternal;
  return absl::Status(code,
                      absl::StrCat(what, ": ", Lt().GetStatusString(status)));
}

struct Destroy {
  void operator()(cublasLtHandle_t handle) { Lt().Destroy(handle); }
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

struct Matrices {
  const void* a;
  const void* b;
  void* d;
  const void* bias = nullptr;  // An output with BGRADB.
  const void* aux = nullptr;   // Same shape as D.
};

// The algorithm and descriptors for a product.
struct Plan {
  absl::Status status;  // Unimplemented if no algorithm supports the product.
  Owned<cublasLtMatmulDesc_t> description;
  Owned<cublasLtMatrixLayout_t> a, b, d;
  cublasLtMatmulAlgo_t algorithm = {};
  size_t workspace_bytes = 0;
};

template <typename T>
absl::Status Set(cublasLtMatmulDesc_t description,
                 cublasLtMatmulDescAttributes_t attribute, const T& value) {
  return ToStatus(Lt().MatmulDescSetAttribute(description, attribute, &value,
                                              sizeof(value)),
                  "cublasLtMatmulDescSetAttribute");
}

template <typename T>
absl::Status Set(cublasLtMatmulPreference_t preference,
                 cublasLtMatmulPreferenceAttributes_t attribute,
                 const T& value) {
  return ToStatus(Lt().MatmulPreferenceSetAttribute(preference, attribute,
                                                    &value, sizeof(value)),
                  "cublasLtMatmulPreferenceSetAttribute");
}

absl::StatusOr<Owned<cublasLtMatmulDesc_t>> Describe(
    const Product& product, cublasComputeType_t compute_type) {
  cublasLtMatmulDesc_t description;
  TRIBUTARY_RETURN_IF_ERROR(
      ToStatus(Lt().MatmulDescCreate(&description, compute_type, CUDA_R_32F),
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
  TRIBUTARY_RETURN_IF_ERROR(
      ToStatus(Lt().MatrixLayoutCreate(&layout, type, rows, columns, rows),
               "cublasLtMatrixLayoutCreate"));
  return Owned<cublasLtMatrixLayout_t>(layout);
}

absl::StatusOr<Owned<cublasLtMatmulPreference_t>> Preferences(
    uint32_t alignment) {
  cublasLtMatmulPreference_t preference;
  TRIBUTARY_RETURN_IF_ERROR(ToStatus(Lt().MatmulPreferenceCreate(&preference),
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
absl::StatusOr<Plan> MakePlan(cublasLtHandle_t handle, const Product& product,
                              cublasComputeType_t compute_type,
                              const Matrices& matrices) {
  Plan plan;
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
        ToStatus(status, "cublasLtMatmulAlgoGetHeuristic"));
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

class CublasLinearOps final : public LinearOps {
 public:
  CublasLinearOps(cublasLtHandle_t handle, Precision precision,
                  CudaContext* context, ElementwiseOps* elementwise)
      : context_(context),
        elementwise_(elementwise),
        handle_(handle),
        compute_type_(precision == Precision::kTf32
                          ? CUBLAS_COMPUTE_32F_FAST_TF32
                          : CUBLAS_COMPUTE_32F),
        type_(precision == Precision::kBfloat16 ? CUDA_R_16BF : CUDA_R_32F),
        bias_(&context->Current(), context->growths_counter()),
        unrounded_(&context->Current(), context->growths_counter()) {}

  void Forward(const ForwardArguments& args) override {
    Stream& stream = context_->Current();
    const LinearShape& s = args.shape;
    Product product = ForwardProduct(s);
    if (args.bias == nullptr) {
      stream.Check(Multiply(stream, product, {args.weight, args.x, args.y},
                            /*accumulate=*/false));
      return;
    }
    product.epilogue = CUBLASLT_EPILOGUE_BIAS;
    absl::Status status = absl::UnimplementedError("rounds twice");
    if (RoundsOnce(product)) {
      status = Multiply(
          stream, product,
          {args.weight, args.x, args.y, BiasFor(stream, s.outputs, args.bias)},
          /*accumulate=*/false);
    }
    if (absl::IsUnimplemented(status)) {
      status = MultiplyAndAdd(stream, args);
    }
    stream.Check(status);
  }

  void BackwardInput(const BackwardInputArguments& args) override {
    Stream& stream = context_->Current();
    stream.Check(Multiply(stream, BackwardInputProduct(args.shape),
                          {args.weight, args.dy, args.dx}, args.accumulate));
  }

  // In bfloat16, where the library supports it, the product's epilogue sums the
  // columns. In float32 a kernel does: with TF32 the epilogue would sum rounded
  // numbers.
  void BackwardWeight(const BackwardWeightArguments& args) override {
    Stream& stream = context_->Current();
    const LinearShape& s = args.shape;
    Product product;
    product.factor_type = type_;
    product.m = s.inputs;
    product.n = s.outputs;
    product.k = s.rows;
    product.transpose_b = true;
    if (args.dbias != nullptr && type_ != CUDA_R_32F) {
      Product fused = product;
      fused.epilogue = CUBLASLT_EPILOGUE_BGRADB;
      if (MultiplyWithEpilogue(stream, fused,
                               {args.x, args.dy, args.dweight, args.dbias},
                               args.accumulate)) {
        return;
      }
    }
    stream.Check(Multiply(stream, product, {args.x, args.dy, args.dweight},
                          args.accumulate));
    if (args.dbias == nullptr) return;
    if (type_ == CUDA_R_32F) {
      ColumnSums(stream, context_->scratch(), s.rows, s.outputs,
                 As<float>(args.dy), args.dbias);
    } else {
      ColumnSums(stream, context_->scratch(), s.rows, s.outputs,
                 As<Bfloat16>(args.dy), args.dbias);
    }
  }

  // In bfloat16, where the library supports it, GELU is in the product's
  // epilogue, in float32 before rounding. Not in float32: the epilogue's tanh
  // is an approximation that suffices for bfloat16 only.
  void GeluForward(const GeluForwardArguments& args) override {
    Stream& stream = context_->Current();
    const LinearShape& s = args.shape;
    Product product = ForwardProduct(s);
    product.epilogue = args.bias == nullptr ? CUBLASLT_EPILOGUE_GELU_AUX
                                            : CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    if (MultiplyWithAux(stream, product,
                        {args.weight, args.x, args.y,
                         BiasFor(stream, s.outputs, args.bias), args.z})) {
      return;
    }
    Forward({s, args.x, args.weight, args.bias, args.z});
    elementwise_->GeluForward({s.rows * s.outputs, args.z, args.y});
  }

  void GeluBackwardInput(const GeluBackwardInputArguments& args) override {
    Stream& stream = context_->Current();
    const LinearShape& s = args.shape;
    Product product = BackwardInputProduct(s);
    product.epilogue = CUBLASLT_EPILOGUE_DGELU;
    if (MultiplyWithAux(
            stream, product,
            {args.weight, args.dy, args.dz, /*bias=*/nullptr, args.z})) {
      return;
    }
    BackwardInput({s, args.dy, args.weight, /*accumulate=*/false, args.dz});
    elementwise_->GeluBackward({s.rows * s.inputs, args.z, args.dz, args.dz});
  }

 private:
  Product ForwardProduct(const LinearShape& s) const {
    Product product;
    product.m = s.outputs;
    product.n = s.rows;
    product.k = s.inputs;
    product.transpose_a = true;
    product.factor_type = product.result_type = type_;
    return product;
  }

  Product BackwardInputProduct(const LinearShape& s) const {
    Product product;
    product.m = s.inputs;
    product.n = s.rows;
    product.k = s.outputs;
    product.factor_type = product.result_type = type_;
    return product;
  }

  // Returns true if the library rounds only the result of the product's
  // epilogue.
  static bool RoundsOnce(const Product& product) {
    return product.result_type == CUDA_R_32F ||
           (product.m % kEpilogueMultiple == 0 &&
            product.k % kEpilogueMultiple == 0);
  }

  // Forward with a kernel that adds the bias to the product in float32.
  absl::Status MultiplyAndAdd(Stream& stream, const ForwardArguments& args) {
    const LinearShape& s = args.shape;
    Product product = ForwardProduct(s);
    product.result_type = CUDA_R_32F;
    const bool rounds = type_ != CUDA_R_32F;
    float* const sums =
        rounds ? static_cast<float*>(unrounded_.Bytes(
                     static_cast<size_t>(s.rows * s.outputs) * sizeof(float)))
               : As<float>(args.y);
    TRIBUTARY_RETURN_IF_ERROR(Multiply(stream, product,
                                       {args.weight, args.x, sums},
                                       /*accumulate=*/false));
    if (rounds) {
      AddToRows(stream, s.rows, s.outputs, sums, args.bias,
                As<Bfloat16>(args.y));
    } else {
      AddToRows(stream, s.rows, s.outputs, sums, args.bias, sums);
    }
    return absl::OkStatus();
  }

  // Returns the bias in cuBLASLt's type. Null yields null.
  const void* BiasFor(Stream& stream, int64_t outputs, const float* bias) {
    if (bias == nullptr || type_ == CUDA_R_32F) return bias;
    auto* const rounded = static_cast<Bfloat16*>(
        bias_.Bytes(static_cast<size_t>(outputs) * sizeof(Bfloat16)));
    Convert(stream, outputs, bias, rounded);
    return rounded;
  }

  // Returns the plan, found once for each product.
  const Plan& PlanOf(const Product& product, const Matrices& matrices) {
    const auto found = plans_.find(product);
    if (found != plans_.end()) return found->second;
    if (plans_.size() >= kMaximumPlans) plans_.clear();
    Plan& plan = plans_[product];
    absl::StatusOr<Plan> made =
        MakePlan(handle_.get(), product, compute_type_, matrices);
    if (made.ok()) {
      plan = *std::move(made);
    } else {
      plan.status = absl::Status(
          made.status().code(), absl::StrCat(made.status().message(),
                                             " on cuda:", context_->ordinal()));
    }
    return plan;
  }

  absl::Status Multiply(Stream& stream, Product product,
                        const Matrices& matrices, bool accumulate) {
    TRIBUTARY_RETURN_IF_ERROR(stream.status());
    product.alignment = AlignmentOf(product, matrices);
    const Plan& plan = PlanOf(product, matrices);
    TRIBUTARY_RETURN_IF_ERROR(plan.status);
    TRIBUTARY_RETURN_IF_ERROR(
        SetPointers(product, matrices, plan.description.get()));
    void* const workspace = context_->scratch().Bytes(plan.workspace_bytes);
    TRIBUTARY_RETURN_IF_ERROR(stream.status());
    const float one = 1, beta = accumulate ? 1 : 0;
    return ToStatus(
        Lt().Matmul(handle_.get(), plan.description.get(), &one, matrices.a,
                    plan.a.get(), matrices.b, plan.b.get(), &beta, matrices.d,
                    plan.d.get(), matrices.d, plan.d.get(), &plan.algorithm,
                    workspace, plan.workspace_bytes, stream.get()),
        absl::StrCat("cublasLtMatmul on cuda:", stream.ordinal()));
  }

  // Returns false if GELU must not be in the product's epilogue, or the library
  // has no plan for the product.
  bool MultiplyWithAux(Stream& stream, const Product& product,
                       const Matrices& matrices) {
    return type_ != CUDA_R_32F && RoundsOnce(product) &&
           MultiplyWithEpilogue(stream, product, matrices,
                                /*accumulate=*/false);
  }

  // Multiplies if the library has a plan for the product with its epilogue.
  // Returns false otherwise.
  bool MultiplyWithEpilogue(Stream& stream, const Product& product,
                            const Matrices& matrices, bool accumulate) {
    if (AlignmentOf(product, matrices) < product.alignment) return false;
    // Versions of the library report an unsupported epilogue differently.
    const absl::Status& planned = PlanOf(product, matrices).status;
    if (!planned.ok() && !absl::IsResourceExhausted(planned)) return false;
    stream.Check(Multiply(stream, product, matrices, accumulate));
    return true;
  }

  CudaContext* const context_;
  ElementwiseOps* const elementwise_;
  const Owned<cublasLtHandle_t> handle_;
  const cublasComputeType_t compute_type_;
  const cudaDataType_t type_;  // Type of Real.
  Scratch bias_;               // A bias in bfloat16.
  // A product to which a bias is still to be added, in float32.
  Scratch unrounded_;
  std::map<Product, Plan> plans_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LinearOps>> CreateLinearOps(
    Precision precision, CudaContext* context, ElementwiseOps* elementwise) {
  TRIBUTARY_RETURN_IF_ERROR(LoadCublasLt().status());
  cublasLtHandle_t handle;
  TRIBUTARY_RETURN_IF_ERROR(ToStatus(Lt().Create(&handle), "cublasLtCreate"));
  return std::make_unique<CublasLinearOps>(handle, precision, context,
                                           elementwise);
}

}  // namespace tributary::cuda
