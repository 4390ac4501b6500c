// Convolutions using cuDNN, in float32 (with TF32 only for kTf32) or in
// bfloat16 with sums in float32. Uses deterministic algorithms that sum
// products directly: transforming ones (Winograd, FFT) round differently in
// each part of an image. The library's heuristic chooses the algorithm once for
// each shape. The first operation loads cuDNN, so models without convolutions
// do not need it. Gradients of weights are float32 throughout, because cuDNN
// would round them to bfloat16.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <tuple>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/device/cuda/cuda_ops.h"
#include "worker/device/cuda/kernels/bfloat16.h"
#include "worker/device/cuda/kernels/bias.h"
#include "worker/device/cuda/kernels/elementwise.h"
#include "worker/device/cuda/libraries/cudnn_library.h"

namespace tributary::cuda {
namespace {

// Shapes repeat from step to step. If there are more, all plans are discarded
// and found again, which only costs time.
constexpr size_t kMaximumPlans = 256;

// Exceeds the number of cuDNN's algorithms.
constexpr int kMaximumResults = 16;

// Requires that cuDNN has been loaded.
const Cudnn& Dnn() { return **LoadCudnn(); }

absl::Status CudnnToStatus(cudnnStatus_t status, absl::string_view what) {
  if (status == CUDNN_STATUS_SUCCESS) return absl::OkStatus();
  cudaGetLastError();  // Clears the error, so that no later call reports it.
  const absl::StatusCode code = status == CUDNN_STATUS_ALLOC_FAILED
                                    ? absl::StatusCode::kResourceExhausted
                                    : absl::StatusCode::kInternal;
  return absl::Status(code,
                      absl::StrCat(what, ": ", Dnn().GetErrorString(status)));
}

struct Destroy {
  void operator()(cudnnHandle_t handle) { Dnn().Destroy(handle); }
  void operator()(cudnnTensorDescriptor_t tensor) {
    Dnn().DestroyTensorDescriptor(tensor);
  }
  void operator()(cudnnFilterDescriptor_t filter) {
    Dnn().DestroyFilterDescriptor(filter);
  }
  void operator()(cudnnConvolutionDescriptor_t convolution) {
    Dnn().DestroyConvolutionDescriptor(convolution);
  }
};
template <typename Pointer>
using Owned = std::unique_ptr<std::remove_pointer_t<Pointer>, Destroy>;

template <typename Algorithm>
struct Choice {
  Algorithm algorithm = Algorithm();
  // With the math type that the algorithm and its workspace are for.
  Owned<cudnnConvolutionDescriptor_t> convolution;
  size_t workspace_bytes = 0;
};

// cuDNN's descriptors and algorithms for a shape, with x, y and the weight of
// one type. In bfloat16 there is no backward_weight.
struct Plan {
  Owned<cudnnTensorDescriptor_t> x, y;
  Owned<cudnnFilterDescriptor_t> weight;
  Choice<cudnnConvolutionFwdAlgo_t> forward;
  Choice<cudnnConvolutionBwdDataAlgo_t> backward_input;
  Choice<cudnnConvolutionBwdFilterAlgo_t> backward_weight;
};

auto KeyOf(const ConvolutionShape& s, cudnnDataType_t type) {
  return std::make_tuple(type, s.batch, s.in_channels, s.in_height, s.in_width,
                         s.out_channels, s.out_height, s.out_width, s.kernel,
                         s.stride, s.padding);
}
using PlanKey = decltype(KeyOf(ConvolutionShape(), CUDNN_DATA_FLOAT));

// Chooses the first of `results`, which are sorted by speed, that is among
// `allowed`, and sets the math type of `convolution`, for which the results
// are, accordingly. `workspace(algorithm, bytes)` asks the library.
template <typename Result, typename Algorithm, typename Workspace>
absl::StatusOr<Choice<Algorithm>> Choose(
    Owned<cudnnConvolutionDescriptor_t> convolution, cudnnMathType_t math,
    const Result* results, int count, std::initializer_list<Algorithm> allowed,
    const Workspace& workspace) {
  for (const Result* result = results; result < results + count; ++result) {
    if (result->status != CUDNN_STATUS_SUCCESS ||
        result->determinism != CUDNN_DETERMINISTIC ||
        std::find(allowed.begin(), allowed.end(), result->algo) ==
            allowed.end()) {
      continue;
    }
    // A result has a math type of its own. In float32 it must not permit TF32,
    // and result->memory may be that of another type.
    const cudnnMathType_t chosen =
        math == CUDNN_FMA_MATH ? math : result->mathType;
    TRIBUTARY_RETURN_IF_ERROR(
        CudnnToStatus(Dnn().SetConvolutionMathType(convolution.get(), chosen),
                      "cudnnSetConvolutionMathType"));
    size_t bytes = 0;
    if (workspace(convolution.get(), result->algo, &bytes) !=
        CUDNN_STATUS_SUCCESS) {
      continue;
    }
    Choice<Algorithm> choice;
    choice.algorithm = result->algo;
    choice.convolution = std::move(convolution);
    choice.workspace_bytes = bytes;
    return choice;
  }
  return absl::UnimplementedError(
      "cuDNN has no deterministic algorithm for a convolution of this shape");
}

absl::StatusOr<Owned<cudnnTensorDescriptor_t>> Describe(cudnnDataType_t type,
                                                        int64_t batch,
                                                        int64_t channels,
                                                        int64_t height,
                                                        int64_t width) {
  cudnnTensorDescriptor_t tensor;
  TRIBUTARY_RETURN_IF_ERROR(CudnnToStatus(Dnn().CreateTensorDescriptor(&tensor),
                                          "cudnnCreateTensorDescriptor"));
  Owned<cudnnTensorDescriptor_t> owned(tensor);
  TRIBUTARY_RETURN_IF_ERROR(
      CudnnToStatus(Dnn().SetTensor4dDescriptor(
                        tensor, CUDNN_TENSOR_NCHW, type,
                        static_cast<int>(batch), static_cast<int>(channels),
                        static_cast<int>(height), static_cast<int>(width)),
                    "cudnnSetTensor4dDescriptor"));
  return owned;
}

absl::Status DescribeAll(const ConvolutionShape& s, cudnnDataType_t type,
                         Plan& plan) {
  TRIBUTARY_ASSIGN_OR_RETURN(
      plan.x, Describe(type, s.batch, s.in_channels, s.in_height, s.in_width));
  TRIBUTARY_ASSIGN_OR_RETURN(plan.y, Describe(type, s.batch, s.out_channels,
                                              s.out_height, s.out_width));

  cudnnFilterDescriptor_t weight;
  TRIBUTARY_RETURN_IF_ERROR(CudnnToStatus(Dnn().CreateFilterDescriptor(&weight),
                                          "cudnnCreateFilterDescriptor"));
  plan.weight.reset(weight);
  return CudnnToStatus(
      Dnn().SetFilter4dDescriptor(
          weight, type, CUDNN_TENSOR_NCHW, static_cast<int>(s.out_channels),
          static_cast<int>(s.in_channels), static_cast<int>(s.kernel),
          static_cast<int>(s.kernel)),
      "cudnnSetFilter4dDescriptor");
}

absl::StatusOr<Owned<cudnnConvolutionDescriptor_t>> DescribeConvolution(
    const ConvolutionShape& s, cudnnMathType_t math) {
  cudnnConvolutionDescriptor_t convolution;
  TRIBUTARY_RETURN_IF_ERROR(
      CudnnToStatus(Dnn().CreateConvolutionDescriptor(&convolution),
                    "cudnnCreateConvolutionDescriptor"));
  Owned<cudnnConvolutionDescriptor_t> owned(convolution);
  const int padding = static_cast<int>(s.padding);
  const int stride = static_cast<int>(s.stride);
  TRIBUTARY_RETURN_IF_ERROR(CudnnToStatus(
      Dnn().SetConvolution2dDescriptor(
          convolution, padding, padding, stride, stride, /*dilation_h=*/1,
          /*dilation_w=*/1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
      "cudnnSetConvolution2dDescriptor"));
  TRIBUTARY_RETURN_IF_ERROR(
      CudnnToStatus(Dnn().SetConvolutionMathType(convolution, math),
                    "cudnnSetConvolutionMathType"));
  return owned;
}

absl::Status ChooseForward(cudnnHandle_t handle, const ConvolutionShape& shape,
                           cudnnMathType_t math, Plan& plan) {
  TRIBUTARY_ASSIGN_OR_RETURN(auto convolution,
                             DescribeConvolution(shape, math));
  cudnnConvolutionFwdAlgoPerf_t results[kMaximumResults];
  int count = 0;
  TRIBUTARY_RETURN_IF_ERROR(CudnnToStatus(
      Dnn().GetConvolutionForwardAlgorithm_v7(
          handle, plan.x.get(), plan.weight.get(), convolution.get(),
          plan.y.get(), kMaximumResults, &count, results),
      "cudnnGetConvolutionForwardAlgorithm_v7"));
  // Excludes GEMM, whose working memory is many times the image.
  TRIBUTARY_ASSIGN_OR_RETURN(
      plan.forward,
      Choose(std::move(convolution), math, results, count,
             {CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM,
              CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
              CUDNN_CONVOLUTION_FWD_ALGO_DIRECT},
             [&](cudnnConvolutionDescriptor_t chosen,
                 cudnnConvolutionFwdAlgo_t algorithm, size_t* bytes) {
               return Dnn().GetConvolutionForwardWorkspaceSize(
                   handle, plan.x.get(), plan.weight.get(), chosen,
                   plan.y.get(), algorithm, bytes);
             }));
  return absl::OkStatus();
}

absl::Status ChooseBackwardInput(cudnnHandle_t handle,
                                 const ConvolutionShape& shape,
                                 cudnnMathType_t math, Plan& plan) {
  TRIBUTARY_ASSIGN_OR_RETURN(auto convolution,
                             DescribeConvolution(shape, math));
  cudnnConvolutionBwdDataAlgoPerf_t results[kMaximumResults];
  int count = 0;
  TRIBUTARY_RETURN_IF_ERROR(CudnnToStatus(
      Dnn().GetConvolutionBackwardDataAlgorithm_v7(
          handle, plan.weight.get(), plan.y.get(), convolution.get(),
          plan.x.get(), kMaximumResults, &count, results),
      "cudnnGetConvolutionBackwardDataAlgorithm_v7"));
  TRIBUTARY_ASSIGN_OR_RETURN(
      plan.backward_input,
      Choose(std::move(convolution), math, results, count,
             {CUDNN_CONVOLUTION_BWD_DATA_ALGO_1},
             [&](cudnnConvolutionDescriptor_t chosen,
                 cudnnConvolutionBwdDataAlgo_t algorithm, size_t* bytes) {
               return Dnn().GetConvolutionBackwardDataWorkspaceSize(
                   handle, plan.weight.get(), plan.y.get(), chosen,
                   plan.x.get(), algorithm, bytes);
             }));
  return absl::OkStatus();
}

absl::Status ChooseBackwardWeight(cudnnHandle_t handle,
                                  const ConvolutionShape& shape,
                                  cudnnMathType_t math, Plan& plan) {
  TRIBUTARY_ASSIGN_OR_RETURN(auto convolution,
                             DescribeConvolution(shape, math));
  cudnnConvolutionBwdFilterAlgoPerf_t results[kMaximumResults];
  int count = 0;
  TRIBUTARY_RETURN_IF_ERROR(
      CudnnToStatus(Dnn().GetConvolutionBackwardFilterAlgorithm_v7(
                        handle, plan.x.get(), plan.y.get(), convolution.get(),
                        plan.weight.get(), kMaximumResults, &count, results),
                    "cudnnGetConvolutionBackwardFilterAlgorithm_v7"));
  TRIBUTARY_ASSIGN_OR_RETURN(
      plan.backward_weight,
      Choose(std::move(convolution), math, results, count,
             {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1},
             [&](cudnnConvolutionDescriptor_t chosen,
                 cudnnConvolutionBwdFilterAlgo_t algorithm, size_t* bytes) {
               return Dnn().GetConvolutionBackwardFilterWorkspaceSize(
                   handle, plan.x.get(), plan.y.get(), chosen,
                   plan.weight.get(), algorithm, bytes);
             }));
  return absl::OkStatus();
}

absl::StatusOr<Plan> MakePlan(cudnnHandle_t handle, const ConvolutionShape& s,
                              cudnnDataType_t type,
                              cudnnMathType_t float_math) {
  Plan plan;
  const cudnnMathType_t math =
      type == CUDNN_DATA_FLOAT ? float_math : CUDNN_TENSOR_OP_MATH;
  TRIBUTARY_RETURN_IF_ERROR(DescribeAll(s, type, plan));
  TRIBUTARY_RETURN_IF_ERROR(ChooseForward(handle, s, math, plan));
  TRIBUTARY_RETURN_IF_ERROR(ChooseBackwardInput(handle, s, math, plan));
  if (type == CUDNN_DATA_FLOAT) {
    TRIBUTARY_RETURN_IF_ERROR(ChooseBackwardWeight(handle, s, math, plan));
  }
  return plan;
}

constexpr float kOne = 1, kZero = 0;

// T is what Real stands for.
template <typename T>
class CudnnConvolutionOps final : public ConvolutionOps {
 public:
  CudnnConvolutionOps(Precision precision, CudaContext* context)
      : context_(context),
        float_math_(precision == Precision::kTf32 ? CUDNN_DEFAULT_MATH
                                                  : CUDNN_FMA_MATH),
        x_(&context->Current(), context->growths_counter()),
        dy_(&context->Current(), context->growths_counter()) {}

  void Forward(const ForwardArguments& args) override {
    Stream& stream = context_->Current();
    const Plan* const plan = PlanOf(stream, args.shape, kType);
    if (plan == nullptr) return;
    const auto& choice = plan->forward;
    Run(stream, "cudnnConvolutionForward", choice, [&](void* workspace) {
      return Dnn().ConvolutionForward(
          handle_.get(), &kOne, plan->x.get(), args.x, plan->weight.get(),
          args.weight, choice.convolution.get(), choice.algorithm, workspace,
          choice.workspace_bytes, &kZero, plan->y.get(), args.y);
    });
    if (args.bias == nullptr) return;
    AddToPlanes(stream, args.shape.batch, args.shape.out_channels,
                args.shape.out_height * args.shape.out_width, args.bias,
                As<T>(args.y));
  }

  void BackwardInput(const BackwardInputArguments& args) override {
    Stream& stream = context_->Current();
    const Plan* const plan = PlanOf(stream, args.shape, kType);
    if (plan == nullptr) return;
    const auto& choice = plan->backward_input;
    Run(stream, "cudnnConvolutionBackwardData", choice, [&](void* workspace) {
      return Dnn().ConvolutionBackwardData(
          handle_.get(), &kOne, plan->weight.get(), args.weight, plan->y.get(),
          args.dy, choice.convolution.get(), choice.algorithm, workspace,
          choice.workspace_bytes, &kZero, plan->x.get(), args.dx);
    });
  }

  void BackwardWeight(const BackwardWeightArguments& args) override {
    Stream& stream = context_->Current();
    const ConvolutionShape& s = args.shape;
    const Plan* const plan = PlanOf(stream, s, CUDNN_DATA_FLOAT);
    if (plan == nullptr) return;
    const float* const x = AsFloats(
        stream, s.batch * s.in_channels * s.in_height * s.in_width, args.x, x_);
    const float* const dy =
        AsFloats(stream, s.batch * s.out_channels * s.out_height * s.out_width,
                 args.dy, dy_);
    const auto& choice = plan->backward_weight;
    Run(stream, "cudnnConvolutionBackwardFilter", choice, [&](void* workspace) {
      return Dnn().ConvolutionBackwardFilter(
          handle_.get(), &kOne, plan->x.get(), x, plan->y.get(), dy,
          choice.convolution.get(), choice.algorithm, workspace,
          choice.workspace_bytes, &kZero, plan->weight.get(), args.dweight);
    });
    if (args.dbias == nullptr) return;
    ChannelSums(stream, context_->scratch(), s.batch, s.out_channels,
                s.out_height * s.out_width, As<T>(args.dy), args.dbias);
  }

 private:
  static constexpr cudnnDataType_t kType =
      std::is_same_v<T, float> ? CUDNN_DATA_FLOAT : CUDNN_DATA_BFLOAT16;

  // Calls call(workspace), unless the stream has failed.
  template <typename Algorithm, typename Call>
  void Run(Stream& stream, const char* operation,
           const Choice<Algorithm>& choice, const Call& call) {
    void* const workspace = context_->scratch().Bytes(choice.workspace_bytes);
    if (!stream.status().ok()) return;
    stream.Check(
        CudnnToStatus(call(workspace),
                      absl::StrCat(operation, " on cuda:", stream.ordinal())));
  }

  absl::Status Start(Stream& stream) {
    if (handle_ != nullptr) return absl::OkStatus();
    TRIBUTARY_RETURN_IF_ERROR(LoadCudnn().status());
    cudnnHandle_t handle;
    TRIBUTARY_RETURN_IF_ERROR(
        CudnnToStatus(Dnn().Create(&handle), "cudnnCreate"));
    handle_.reset(handle);
    return CudnnToStatus(Dnn().SetStream(handle, stream.get()),
                         "cudnnSetStream");
  }

  // Returns x as float32, converted into `memory` if necessary.
  const float* AsFloats(Stream& stream, int64_t count, const Real* x,
                        Scratch& memory) {
    if (kType == CUDNN_DATA_FLOAT) return As<float>(x);
    float* const wide = memory.Floats(count);
    Convert(stream, count, As<Bfloat16>(x), wide);
    return wide;
  }

  // Returns the plan, found once for each shape. If there is none, records the
  // reason in the stream and returns null.
  const Plan* PlanOf(Stream& stream, const ConvolutionShape& shape,
                     cudnnDataType_t type) {
    if (!stream.status().ok()) return nullptr;
    const auto found = plans_.find(KeyOf(shape, type));
    if (found != plans_.end()) return &found->second;
    const auto make = [&]() -> absl::StatusOr<Plan> {
      TRIBUTARY_RETURN_IF_ERROR(Start(stream));
      return MakePlan(handle_.get(), shape, type, float_math_);
    };
    absl::StatusOr<Plan> plan = make();
    if (!plan.ok()) {
      stream.Check(absl::Status(plan.status().code(),
                                absl::StrCat(plan.status().message(),
                                             " on cuda:", stream.ordinal())));
      return nullptr;
    }
    if (plans_.size() >= kMaximumPlans) plans_.clear();
    return &plans_.emplace(KeyOf(shape, type), *std::move(plan)).first->second;
  }

  CudaContext* const context_;
  // For float32. The library's default permits TF32.
  const cudnnMathType_t float_math_;
  Scratch x_, dy_;               // In float32.
  Owned<cudnnHandle_t> handle_;  // Null before the first operation.
  std::map<PlanKey, Plan> plans_;
};

}  // namespace

std::unique_ptr<ConvolutionOps> CreateConvolutionOps(Precision precision,
                                                     CudaContext* context) {
  if (precision == Precision::kBfloat16) {
    return std::make_unique<CudnnConvolutionOps<Bfloat16>>(precision, context);
  }
  return std::make_unique<CudnnConvolutionOps<float>>(precision, context);
}

}  // namespace tributary::cuda
