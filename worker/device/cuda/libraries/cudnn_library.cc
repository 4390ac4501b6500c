#include "worker/device/cuda/libraries/cudnn_library.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/device/cuda/libraries/shared_library.h"

namespace tributary::cuda {
namespace {

absl::StatusOr<Cudnn> Bind() {
  TRIBUTARY_ASSIGN_OR_RETURN(
      const SharedLibrary library,
      SharedLibrary::Open(absl::StrCat("libcudnn.so.", CUDNN_MAJOR)));
  Cudnn functions;
  TRIBUTARY_RETURN_IF_ERROR(library.Bind({
      {"cudnnConvolutionBackwardData", &functions.ConvolutionBackwardData},
      {"cudnnConvolutionBackwardFilter", &functions.ConvolutionBackwardFilter},
      {"cudnnConvolutionForward", &functions.ConvolutionForward},
      {"cudnnCreate", &functions.Create},
      {"cudnnCreateConvolutionDescriptor",
       &functions.CreateConvolutionDescriptor},
      {"cudnnCreateFilterDescriptor", &functions.CreateFilterDescriptor},
      {"cudnnCreateTensorDescriptor", &functions.CreateTensorDescriptor},
      {"cudnnDestroy", &functions.Destroy},
      {"cudnnDestroyConvolutionDescriptor",
       &functions.DestroyConvolutionDescriptor},
      {"cudnnDestroyFilterDescriptor", &functions.DestroyFilterDescriptor},
      {"cudnnDestroyTensorDescriptor", &functions.DestroyTensorDescriptor},
      {"cudnnGetConvolutionBackwardDataAlgorithm_v7",
       &functions.GetConvolutionBackwardDataAlgorithm_v7},
      {"cudnnGetConvolutionBackwardDataWorkspaceSize",
       &functions.GetConvolutionBackwardDataWorkspaceSize},
      {"cudnnGetConvolutionBackwardFilterAlgorithm_v7",
       &functions.GetConvolutionBackwardFilterAlgorithm_v7},
      {"cudnnGetConvolutionBackwardFilterWorkspaceSize",
       &functions.GetConvolutionBackwardFilterWorkspaceSize},
      {"cudnnGetConvolutionForwardAlgorithm_v7",
       &functions.GetConvolutionForwardAlgorithm_v7},
      {"cudnnGetConvolutionForwardWorkspaceSize",
       &functions.GetConvolutionForwardWorkspaceSize},
      {"cudnnGetErrorString", &functions.GetErrorString},
      {"cudnnSetConvolution2dDescriptor",
       &functions.SetConvolution2dDescriptor},
      {"cudnnSetConvolutionMathType", &functions.SetConvolutionMathType},
      {"cudnnSetFilter4dDescriptor", &functions.SetFilter4dDescriptor},
      {"cudnnSetStream", &functions.SetStream},
      {"cudnnSetTensor4dDescriptor", &functions.SetTensor4dDescriptor},
  }));
  return functions;
}

}  // namespace

absl::StatusOr<const Cudnn*> LoadCudnn() { return BindOnce(&Bind); }

}  // namespace tributary::cuda
