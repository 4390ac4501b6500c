// Replaces the header of cuDNN of the same name. Declares the part that
// worker/device/cuda uses; emulated_cudnn.cc implements it.
#ifndef TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_CUDNN_H_
#define TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_CUDNN_H_

#include <cuda_runtime.h>

#include <cstddef>

enum cudnnStatus_t {
  CUDNN_STATUS_SUCCESS,
  CUDNN_STATUS_ALLOC_FAILED,
  CUDNN_STATUS_NOT_SUPPORTED,
  CUDNN_STATUS_EXECUTION_FAILED,
};
enum cudnnDataType_t { CUDNN_DATA_FLOAT, CUDNN_DATA_BFLOAT16 };
enum cudnnTensorFormat_t { CUDNN_TENSOR_NCHW };
enum cudnnMathType_t {
  CUDNN_DEFAULT_MATH,
  CUDNN_TENSOR_OP_MATH,
  CUDNN_FMA_MATH,
};
enum cudnnDeterminism_t { CUDNN_NON_DETERMINISTIC, CUDNN_DETERMINISTIC };
enum cudnnConvolutionMode_t { CUDNN_CROSS_CORRELATION };

enum cudnnConvolutionFwdAlgo_t {
  CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM,
  CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
  CUDNN_CONVOLUTION_FWD_ALGO_GEMM,
  CUDNN_CONVOLUTION_FWD_ALGO_DIRECT,
  CUDNN_CONVOLUTION_FWD_ALGO_FFT,
};
enum cudnnConvolutionBwdDataAlgo_t {
  CUDNN_CONVOLUTION_BWD_DATA_ALGO_0,
  CUDNN_CONVOLUTION_BWD_DATA_ALGO_1,
};
enum cudnnConvolutionBwdFilterAlgo_t {
  CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0,
  CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1,
  CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3,
};

template <typename Algorithm>
struct EmulatedAlgorithmResult {
  Algorithm algo;
  cudnnStatus_t status;
  size_t memory;
  cudnnDeterminism_t determinism;
  cudnnMathType_t mathType;
};
using cudnnConvolutionFwdAlgoPerf_t =
    EmulatedAlgorithmResult<cudnnConvolutionFwdAlgo_t>;
using cudnnConvolutionBwdDataAlgoPerf_t =
    EmulatedAlgorithmResult<cudnnConvolutionBwdDataAlgo_t>;
using cudnnConvolutionBwdFilterAlgoPerf_t =
    EmulatedAlgorithmResult<cudnnConvolutionBwdFilterAlgo_t>;

using cudnnHandle_t = struct EmulatedCudnn*;
using cudnnTensorDescriptor_t = struct EmulatedTensor*;
using cudnnFilterDescriptor_t = struct EmulatedFilter*;
using cudnnConvolutionDescriptor_t = struct EmulatedConvolution*;

const char* cudnnGetErrorString(cudnnStatus_t status);
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle);
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle);
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream);

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* tensor);
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t tensor);
cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t tensor,
                                         cudnnTensorFormat_t format,
                                         cudnnDataType_t type, int n, int c,
                                         int h, int w);
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* filter);
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t filter);
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t filter,
                                         cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int k,
                                         int c, int h, int w);
cudnnStatus_t cudnnCreateConvolutionDescriptor(
    cudnnConvolutionDescriptor_t* convolution);
cudnnStatus_t cudnnDestroyConvolutionDescriptor(
    cudnnConvolutionDescriptor_t convolution);
cudnnStatus_t cudnnSetConvolution2dDescriptor(
    cudnnConvolutionDescriptor_t convolution, int pad_h, int pad_w,
    int stride_h, int stride_w, int dilation_h, int dilation_w,
    cudnnConvolutionMode_t mode, cudnnDataType_t compute_type);
cudnnStatus_t cudnnSetConvolutionMathType(
    cudnnConvolutionDescriptor_t convolution, cudnnMathType_t math);

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(
    cudnnHandle_t handle, cudnnTensorDescriptor_t x,
    cudnnFilterDescriptor_t filter, cudnnConvolutionDescriptor_t convolution,
    cudnnTensorDescriptor_t y, int requested, int* count,
    cudnnConvolutionFwdAlgoPerf_t* results);
cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(
    cudnnHandle_t handle, cudnnFilterDescriptor_t filter,
    cudnnTensorDescriptor_t dy, cudnnConvolutionDescriptor_t convolution,
    cudnnTensorDescriptor_t dx, int requested, int* count,
    cudnnConvolutionBwdDataAlgoPerf_t* results);
cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t dy,
    cudnnConvolutionDescriptor_t convolution, cudnnFilterDescriptor_t dfilter,
    int requested, int* count, cudnnConvolutionBwdFilterAlgoPerf_t* results);

// Return the size in bytes of the working memory of an algorithm, which depends
// on the math type of the convolution.
cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(
    cudnnHandle_t handle, cudnnTensorDescriptor_t x,
    cudnnFilterDescriptor_t filter, cudnnConvolutionDescriptor_t convolution,
    cudnnTensorDescriptor_t y, cudnnConvolutionFwdAlgo_t algorithm,
    size_t* bytes);
cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(
    cudnnHandle_t handle, cudnnFilterDescriptor_t filter,
    cudnnTensorDescriptor_t dy, cudnnConvolutionDescriptor_t convolution,
    cudnnTensorDescriptor_t dx, cudnnConvolutionBwdDataAlgo_t algorithm,
    size_t* bytes);
cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t dy,
    cudnnConvolutionDescriptor_t convolution, cudnnFilterDescriptor_t dfilter,
    cudnnConvolutionBwdFilterAlgo_t algorithm, size_t* bytes);

cudnnStatus_t cudnnConvolutionForward(
    cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x_layout,
    const void* x, cudnnFilterDescriptor_t filter_layout, const void* filter,
    cudnnConvolutionDescriptor_t convolution,
    cudnnConvolutionFwdAlgo_t algorithm, void* workspace,
    size_t workspace_bytes, const void* beta, cudnnTensorDescriptor_t y_layout,
    void* y);
cudnnStatus_t cudnnConvolutionBackwardData(
    cudnnHandle_t handle, const void* alpha,
    cudnnFilterDescriptor_t filter_layout, const void* filter,
    cudnnTensorDescriptor_t dy_layout, const void* dy,
    cudnnConvolutionDescriptor_t convolution,
    cudnnConvolutionBwdDataAlgo_t algorithm, void* workspace,
    size_t workspace_bytes, const void* beta, cudnnTensorDescriptor_t dx_layout,
    void* dx);
cudnnStatus_t cudnnConvolutionBackwardFilter(
    cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x_layout,
    const void* x, cudnnTensorDescriptor_t dy_layout, const void* dy,
    cudnnConvolutionDescriptor_t convolution,
    cudnnConvolutionBwdFilterAlgo_t algorithm, void* workspace,
    size_t workspace_bytes, const void* beta,
    cudnnFilterDescriptor_t dfilter_layout, void* dfilter);

#endif  // TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_CUDNN_H_
