// Stands in for cuDNN: makes the convolutions that its descriptors say, with
// the CPU's own. Ends the process where the library would refuse a call, or
// give other bits from run to run.
#include <cudnn.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "tests/worker/device/cuda/emulation/emulated_libraries.h"
#include "worker/device/cuda/libraries/cudnn_library.h"
#include "worker/device/device.h"

struct EmulatedCudnn {
  cudaStream_t stream = nullptr;
  const std::shared_ptr<tributary::Device> floats =
      tributary::CreateCpuDevice(tributary::Precision::kFloat32);
  const std::shared_ptr<tributary::Device> halves =
      tributary::CreateCpuDevice(tributary::Precision::kBfloat16);
};

struct EmulatedTensor {
  cudnnDataType_t type;
  int n, c, h, w;

  int64_t count() const { return int64_t{n} * c * h * w; }
};

// n: output channels, c: input channels.
struct EmulatedFilter : EmulatedTensor {};

struct EmulatedConvolution {
  int padding = 0, stride = 1;
  // The library's default, which allows TF32.
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};

namespace {

using emulated_gpu::Check;
using tributary::ConvolutionShape;
using tributary::Device;
using tributary::Real;

// What every algorithm needs with a math type.
size_t WorkspaceBytes(cudnnMathType_t math) {
  return 1000 * (1 + static_cast<size_t>(math));
}

ConvolutionShape ShapeOf(const EmulatedTensor& x, const EmulatedFilter& filter,
                         const EmulatedConvolution& convolution,
                         const EmulatedTensor& y) {
  Check(x.type == filter.type && x.type == y.type, "tensors of several types");
  Check(x.c == filter.c && y.c == filter.n && x.n == y.n,
        "tensors that do not fit together");
  Check(filter.h == filter.w, "a filter that is no square");
  const auto outputs = [&](int inputs) {
    return (inputs + 2 * convolution.padding - filter.h) / convolution.stride +
           1;
  };
  Check(y.h == outputs(x.h) && y.w == outputs(x.w),
        "an output of another size than the input's");
  return {x.n,
          x.c,
          x.h,
          x.w,
          filter.n,
          y.h,
          y.w,
          filter.h,
          convolution.stride,
          convolution.padding};
}

// Algorithms in the order of their speed: one that fails, one that gives other
// bits each time, and the good one, with a math type that was not asked for.
template <typename Algorithm>
cudnnStatus_t Give(Algorithm changing, Algorithm good, int requested,
                   int* count, EmulatedAlgorithmResult<Algorithm>* results) {
  const EmulatedAlgorithmResult<Algorithm> all[] = {
      {good, CUDNN_STATUS_NOT_SUPPORTED, 0, CUDNN_DETERMINISTIC,
       CUDNN_DEFAULT_MATH},
      {changing, CUDNN_STATUS_SUCCESS, 0, CUDNN_NON_DETERMINISTIC,
       CUDNN_DEFAULT_MATH},
      {good, CUDNN_STATUS_SUCCESS, WorkspaceBytes(CUDNN_DEFAULT_MATH),
       CUDNN_DETERMINISTIC, CUDNN_DEFAULT_MATH},
  };
  *count = std::min(requested, 3);
  std::copy_n(all, *count, results);
  return CUDNN_STATUS_SUCCESS;
}

// A factor in device memory, as the products round it.
class Factor {
 public:
  Factor(const void* values, const EmulatedTensor& tensor, cudnnMathType_t math)
      : values_(static_cast<const Real*>(values)) {
    if (tensor.type != CUDNN_DATA_FLOAT || math == CUDNN_FMA_MATH) return;
    const auto* const floats = static_cast<const float*>(values);
    rounded_.assign(floats, floats + tensor.count());
    for (float& value : rounded_) value = emulated_gpu::RoundToTf32(value);
    values_ = reinterpret_cast<const Real*>(rounded_.data());
  }
  operator const Real*() const { return values_; }

 private:
  const Real* values_;
  std::vector<float> rounded_;
};

// Queues work(device), with what all convolutions need.
template <typename Work>
cudnnStatus_t Convolve(cudnnHandle_t handle, cudnnDataType_t type,
                       cudnnMathType_t math, const void* alpha,
                       const void* beta, void* workspace,
                       size_t workspace_bytes, Work work) {
  Check(handle->stream != nullptr, "no stream was set");
  if (emulated_gpu::CheckLaunch(handle->stream) != cudaSuccess) {
    return CUDNN_STATUS_EXECUTION_FAILED;
  }
  Check(*static_cast<const float*>(alpha) == 1 &&
            *static_cast<const float*>(beta) == 0,
        "scaled convolutions are not emulated");
  Check(workspace != nullptr && workspace_bytes >= WorkspaceBytes(math),
        "a workspace that is too small");
  emulated_gpu::EnqueueWork(
      handle->stream,
      [=, device = type == CUDNN_DATA_FLOAT ? handle->floats : handle->halves,
       work = std::move(work)] {
        std::memset(workspace, 0xff, workspace_bytes);
        work(device.get());
      });
  return CUDNN_STATUS_SUCCESS;
}

template <typename T>
cudnnStatus_t Create(T** descriptor) {
  *descriptor = new T();
  return CUDNN_STATUS_SUCCESS;
}
template <typename T>
cudnnStatus_t Delete(T* descriptor) {
  delete descriptor;
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

const char* cudnnGetErrorString(cudnnStatus_t) { return "emulated error"; }

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) { return Create(handle); }
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) { return Delete(handle); }
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* tensor) {
  return Create(tensor);
}
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t tensor) {
  return Delete(tensor);
}
cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t tensor,
                                         cudnnTensorFormat_t,
                                         cudnnDataType_t type, int n, int c,
                                         int h, int w) {
  *tensor = {type, n, c, h, w};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* filter) {
  return Create(filter);
}
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t filter) {
  return Delete(filter);
}
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t filter,
                                         cudnnDataType_t type,
                                         cudnnTensorFormat_t, int k, int c,
                                         int h, int w) {
  static_cast<EmulatedTensor&>(*filter) = {type, k, c, h, w};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnCreateConvolutionDescriptor(
    cudnnConvolutionDescriptor_t* convolution) {
  return Create(convolution);
}
cudnnStatus_t cudnnDestroyConvolutionDescriptor(
    cudnnConvolutionDescriptor_t convolution) {
  return Delete(convolution);
}
cudnnStatus_t cudnnSetConvolution2dDescriptor(
    cudnnConvolutionDescriptor_t convolution, int pad_h, int pad_w,
    int stride_h, int stride_w, int dilation_h, int dilation_w,
    cudnnConvolutionMode_t, cudnnDataType_t compute_type) {
  Check(pad_h == pad_w && stride_h == stride_w && dilation_h == 1 &&
            dilation_w == 1,
        "convolutions of this kind are not emulated");
  Check(compute_type == CUDNN_DATA_FLOAT, "sums that are not float32");
  convolution->padding = pad_h;
  convolution->stride = stride_h;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionMathType(
    cudnnConvolutionDescriptor_t convolution, cudnnMathType_t math) {
  convolution->math = math;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(
    cudnnHandle_t, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t filter,
    cudnnConvolutionDescriptor_t convolution, cudnnTensorDescriptor_t y,
    int requested, int* count, cudnnConvolutionFwdAlgoPerf_t* results) {
  ShapeOf(*x, *filter, *convolution, *y);
  return Give(CUDNN_CONVOLUTION_FWD_ALGO_FFT,
              CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, requested,
              count, results);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(
    cudnnHandle_t, cudnnFilterDescriptor_t filter, cudnnTensorDescriptor_t dy,
    cudnnConvolutionDescriptor_t convolution, cudnnTensorDescriptor_t dx,
    int requested, int* count, cudnnConvolutionBwdDataAlgoPerf_t* results) {
  ShapeOf(*dx, *filter, *convolution, *dy);
  return Give(CUDNN_CONVOLUTION_BWD_DATA_ALGO_0,
              CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, requested, count, results);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t, cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t dy,
    cudnnConvolutionDescriptor_t convolution, cudnnFilterDescriptor_t dfilter,
    int requested, int* count, cudnnConvolutionBwdFilterAlgoPerf_t* results) {
  ShapeOf(*x, *dfilter, *convolution, *dy);
  return Give(CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0,
              CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, requested, count, results);
}

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(
    cudnnHandle_t, cudnnTensorDescriptor_t, cudnnFilterDescriptor_t,
    cudnnConvolutionDescriptor_t convolution, cudnnTensorDescriptor_t,
    cudnnConvolutionFwdAlgo_t, size_t* bytes) {
  *bytes = WorkspaceBytes(convolution->math);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(
    cudnnHandle_t, cudnnFilterDescriptor_t, cudnnTensorDescriptor_t,
    cudnnConvolutionDescriptor_t convolution, cudnnTensorDescriptor_t,
    cudnnConvolutionBwdDataAlgo_t, size_t* bytes) {
  *bytes = WorkspaceBytes(convolution->math);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t, cudnnTensorDescriptor_t, cudnnTensorDescriptor_t,
    cudnnConvolutionDescriptor_t convolution, cudnnFilterDescriptor_t,
    cudnnConvolutionBwdFilterAlgo_t, size_t* bytes) {
  *bytes = WorkspaceBytes(convolution->math);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnConvolutionForward(
    cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x_layout,
    const void* x, cudnnFilterDescriptor_t filter_layout, const void* filter,
    cudnnConvolutionDescriptor_t convolution,
    cudnnConvolutionFwdAlgo_t algorithm, void* workspace,
    size_t workspace_bytes, const void* beta, cudnnTensorDescriptor_t y_layout,
    void* y) {
  Check(algorithm == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
        "an algorithm that was not offered, or changes");
  const ConvolutionShape shape =
      ShapeOf(*x_layout, *filter_layout, *convolution, *y_layout);
  return Convolve(handle, x_layout->type, convolution->math, alpha, beta,
                  workspace, workspace_bytes,
                  [=, x_tensor = *x_layout, filter_tensor = *filter_layout,
                   math = convolution->math](Device* device) {
                    device->ops().convolution->Forward(
                        {shape, Factor(x, x_tensor, math),
                         Factor(filter, filter_tensor, math),
                         /*bias=*/nullptr, static_cast<Real*>(y)});
                  });
}

cudnnStatus_t cudnnConvolutionBackwardData(
    cudnnHandle_t handle, const void* alpha,
    cudnnFilterDescriptor_t filter_layout, const void* filter,
    cudnnTensorDescriptor_t dy_layout, const void* dy,
    cudnnConvolutionDescriptor_t convolution,
    cudnnConvolutionBwdDataAlgo_t algorithm, void* workspace,
    size_t workspace_bytes, const void* beta, cudnnTensorDescriptor_t dx_layout,
    void* dx) {
  Check(algorithm == CUDNN_CONVOLUTION_BWD_DATA_ALGO_1,
        "an algorithm that was not offered, or changes");
  const ConvolutionShape shape =
      ShapeOf(*dx_layout, *filter_layout, *convolution, *dy_layout);
  return Convolve(
      handle, dx_layout->type, convolution->math, alpha, beta, workspace,
      workspace_bytes,
      [=, dy_tensor = *dy_layout, filter_tensor = *filter_layout,
       math = convolution->math](Device* device) {
        device->ops().convolution->BackwardInput(
            {shape, Factor(dy, dy_tensor, math),
             Factor(filter, filter_tensor, math), static_cast<Real*>(dx)});
      });
}

cudnnStatus_t cudnnConvolutionBackwardFilter(
    cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x_layout,
    const void* x, cudnnTensorDescriptor_t dy_layout, const void* dy,
    cudnnConvolutionDescriptor_t convolution,
    cudnnConvolutionBwdFilterAlgo_t algorithm, void* workspace,
    size_t workspace_bytes, const void* beta,
    cudnnFilterDescriptor_t dfilter_layout, void* dfilter) {
  Check(algorithm == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1,
        "an algorithm that was not offered, or changes");
  Check(x_layout->type == CUDNN_DATA_FLOAT,
        "a filter's gradient that is not float32");
  const ConvolutionShape shape =
      ShapeOf(*x_layout, *dfilter_layout, *convolution, *dy_layout);
  return Convolve(
      handle, CUDNN_DATA_FLOAT, convolution->math, alpha, beta, workspace,
      workspace_bytes,
      [=, x_tensor = *x_layout, dy_tensor = *dy_layout,
       math = convolution->math](Device* device) {
        device->ops().convolution->BackwardWeight(
            {shape, Factor(x, x_tensor, math), Factor(dy, dy_tensor, math),
             static_cast<float*>(dfilter), /*dbias=*/nullptr});
      });
}

namespace tributary::cuda {

absl::StatusOr<const Cudnn*> LoadCudnn() {
  static constexpr Cudnn kFunctions = {
      &cudnnConvolutionBackwardData,
      &cudnnConvolutionBackwardFilter,
      &cudnnConvolutionForward,
      &cudnnCreate,
      &cudnnCreateConvolutionDescriptor,
      &cudnnCreateFilterDescriptor,
      &cudnnCreateTensorDescriptor,
      &cudnnDestroy,
      &cudnnDestroyConvolutionDescriptor,
      &cudnnDestroyFilterDescriptor,
      &cudnnDestroyTensorDescriptor,
      &cudnnGetConvolutionBackwardDataAlgorithm_v7,
      &cudnnGetConvolutionBackwardDataWorkspaceSize,
      &cudnnGetConvolutionBackwardFilterAlgorithm_v7,
      &cudnnGetConvolutionBackwardFilterWorkspaceSize,
      &cudnnGetConvolutionForwardAlgorithm_v7,
      &cudnnGetConvolutionForwardWorkspaceSize,
      &cudnnGetErrorString,
      &cudnnSetConvolution2dDescriptor,
      &cudnnSetConvolutionMathType,
      &cudnnSetFilter4dDescriptor,
      &cudnnSetStream,
      &cudnnSetTensor4dDescriptor,
  };
  return &kFunctions;
}

}  // namespace tributary::cuda
