// Functions of cuDNN, loaded on first use; see shared_library.h.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_LIBRARIES_CUDNN_LIBRARY_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_LIBRARIES_CUDNN_LIBRARY_H_

#include <cudnn.h>

#include "absl/status/statusor.h"

namespace tributary::cuda {

// Pointers to the functions of cuDNN that Tributary calls. Each member has the
// name of its function, without the prefix `cudnn`.
struct Cudnn {
  decltype(&cudnnConvolutionBackwardData) ConvolutionBackwardData;
  decltype(&cudnnConvolutionBackwardFilter) ConvolutionBackwardFilter;
  decltype(&cudnnConvolutionForward) ConvolutionForward;
  decltype(&cudnnCreate) Create;
  decltype(&cudnnCreateConvolutionDescriptor) CreateConvolutionDescriptor;
  decltype(&cudnnCreateFilterDescriptor) CreateFilterDescriptor;
  decltype(&cudnnCreateTensorDescriptor) CreateTensorDescriptor;
  decltype(&cudnnDestroy) Destroy;
  decltype(&cudnnDestroyConvolutionDescriptor) DestroyConvolutionDescriptor;
  decltype(&cudnnDestroyFilterDescriptor) DestroyFilterDescriptor;
  decltype(&cudnnDestroyTensorDescriptor) DestroyTensorDescriptor;
  decltype(&cudnnGetConvolutionBackwardDataAlgorithm_v7)
      GetConvolutionBackwardDataAlgorithm_v7;
  decltype(&cudnnGetConvolutionBackwardDataWorkspaceSize)
      GetConvolutionBackwardDataWorkspaceSize;
  decltype(&cudnnGetConvolutionBackwardFilterAlgorithm_v7)
      GetConvolutionBackwardFilterAlgorithm_v7;
  decltype(&cudnnGetConvolutionBackwardFilterWorkspaceSize)
      GetConvolutionBackwardFilterWorkspaceSize;
  decltype(&cudnnGetConvolutionForwardAlgorithm_v7)
      GetConvolutionForwardAlgorithm_v7;
  decltype(&cudnnGetConvolutionForwardWorkspaceSize)
      GetConvolutionForwardWorkspaceSize;
  decltype(&cudnnGetErrorString) GetErrorString;
  decltype(&cudnnSetConvolution2dDescriptor) SetConvolution2dDescriptor;
  decltype(&cudnnSetConvolutionMathType) SetConvolutionMathType;
  decltype(&cudnnSetFilter4dDescriptor) SetFilter4dDescriptor;
  decltype(&cudnnSetStream) SetStream;
  decltype(&cudnnSetTensor4dDescriptor) SetTensor4dDescriptor;
};

// Returns the functions of cuDNN. The first call loads the library for the
// lifetime of the process. Thread-safe. Returns FailedPrecondition if loading
// fails.
absl::StatusOr<const Cudnn*> LoadCudnn();

}  // namespace tributary::cuda

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_LIBRARIES_CUDNN_LIBRARY_H_
