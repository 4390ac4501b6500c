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
  absl::Status status;
  status.Update(library.Bind("cudnnConvolutionBackwardData",
                             &functions.ConvolutionBackwardData));
  status.Update(library.Bind("cudnnConvolutionBackwardFilter",
                             &functions.ConvolutionBackwardFilter));
  status.Update(
      library.Bind("cudnnConvolutionForward", &functions.ConvolutionForward));
  status.Update(library.Bind("cudnnCreate", &functions.Create));
  status.Update(library.Bind("cudnnCreateConvolutionDescriptor",
                             &functions.CreateConvolutionDescriptor));
  status.Update(library.Bind("cudnnCreateFilterDescriptor",
                             &functions.CreateFilterDescriptor));
  status.Update(library.Bind("cudnnCreateTensorDescriptor",
                             &functions.CreateTensorDescriptor));
  status.Update(library.Bind("cudnnDestroy", &functions.Destroy));
  status.Update(library.Bind("cudnnDestroyConvolutionDescriptor",
                             &functions.DestroyConvolutionDescriptor));
  status.Update(library.Bind("cudnnDestroyFilterDescriptor",
                             &functions.DestroyFilterDescriptor));
  status.Update(library.Bind("cudnnDestroyTensorDescriptor",
                             &functions.DestroyTensorDescriptor));
  status.Update(
      library.Bind("cudnnGetConvolutionBackwardDataAlgorithm_v7",
                   &functions.GetConvolutionBackwardDataAlgorithm_v7));
  status.Update(
      library.Bind("cudnnGetConvolutionBackwardDataWorkspaceSize",
                   &functions.GetConvolutionBackwardDataWorkspaceSize));
  status.Update(
      library.Bind("cudnnGetConvolutionBackwardFilterAlgorithm_v7",
                   &functions.GetConvolutionBackwardFilterAlgorithm_v7));
  status.Update(
      library.Bind("cudnnGetConvolutionBackwardFilterWorkspaceSize",
                   &functions.GetConvolutionBackwardFilterWorkspaceSize));
  status.Update(library.Bind("cudnnGetConvolutionForwardAlgorithm_v7",
                             &functions.GetConvolutionForwardAlgorithm_v7));
  status.Update(library.Bind("cudnnGetConvolutionForwardWorkspaceSize",
                             &functions.GetConvolutionForwardWorkspaceSize));
  status.Update(library.Bind("cudnnGetErrorString", &functions.GetErrorString));
  status.Update(library.Bind("cudnnSetConvolution2dDescriptor",
                             &functions.SetConvolution2dDescriptor));
  status.Update(library.Bind("cudnnSetConvolutionMathType",
                             &functions.SetConvolutionMathType));
  status.Update(library.Bind("cudnnSetFilter4dDescriptor",
                             &functions.SetFilter4dDescriptor));
  status.Update(library.Bind("cudnnSetStream", &functions.SetStream));
  status.Update(library.Bind("cudnnSetTensor4dDescriptor",
                             &functions.SetTensor4dDescriptor));
  TRIBUTARY_RETURN_IF_ERROR(status);
  return functions;
}

}  // namespace

absl::StatusOr<const Cudnn*> LoadCudnn() {
  static const auto* const functions = new absl::StatusOr<Cudnn>(Bind());
  if (!functions->ok()) return functions->status();
  return &**functions;
}

}  // namespace tributary::cuda
