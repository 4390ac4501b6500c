#include "worker/device/cuda/libraries/cublaslt_library.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/device/cuda/libraries/shared_library.h"

namespace tributary::cuda {
namespace {

absl::StatusOr<CublasLt> Bind() {
  TRIBUTARY_ASSIGN_OR_RETURN(
      const SharedLibrary library,
      SharedLibrary::Open(absl::StrCat("libcublasLt.so.", CUBLAS_VER_MAJOR)));
  CublasLt functions;
  absl::Status status;
  status.Update(library.Bind("cublasLtCreate", &functions.Create));
  status.Update(library.Bind("cublasLtDestroy", &functions.Destroy));
  status.Update(
      library.Bind("cublasLtGetStatusString", &functions.GetStatusString));
  status.Update(library.Bind("cublasLtMatmul", &functions.Matmul));
  status.Update(library.Bind("cublasLtMatmulAlgoGetHeuristic",
                             &functions.MatmulAlgoGetHeuristic));
  status.Update(
      library.Bind("cublasLtMatmulDescCreate", &functions.MatmulDescCreate));
  status.Update(
      library.Bind("cublasLtMatmulDescDestroy", &functions.MatmulDescDestroy));
  status.Update(library.Bind("cublasLtMatmulDescSetAttribute",
                             &functions.MatmulDescSetAttribute));
  status.Update(library.Bind("cublasLtMatmulPreferenceCreate",
                             &functions.MatmulPreferenceCreate));
  status.Update(library.Bind("cublasLtMatmulPreferenceDestroy",
                             &functions.MatmulPreferenceDestroy));
  status.Update(library.Bind("cublasLtMatmulPreferenceSetAttribute",
                             &functions.MatmulPreferenceSetAttribute));
  status.Update(library.Bind("cublasLtMatrixLayoutCreate",
                             &functions.MatrixLayoutCreate));
  status.Update(library.Bind("cublasLtMatrixLayoutDestroy",
                             &functions.MatrixLayoutDestroy));
  TRIBUTARY_RETURN_IF_ERROR(status);
  return functions;
}

}  // namespace

absl::StatusOr<const CublasLt*> LoadCublasLt() {
  static const auto* const functions = new absl::StatusOr<CublasLt>(Bind());
  if (!functions->ok()) return functions->status();
  return &**functions;
}

}  // namespace tributary::cuda
