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
  TRIBUTARY_RETURN_IF_ERROR(library.Bind({
      {"cublasLtCreate", &functions.Create},
      {"cublasLtDestroy", &functions.Destroy},
      {"cublasLtGetStatusString", &functions.GetStatusString},
      {"cublasLtMatmul", &functions.Matmul},
      {"cublasLtMatmulAlgoGetHeuristic", &functions.MatmulAlgoGetHeuristic},
      {"cublasLtMatmulDescCreate", &functions.MatmulDescCreate},
      {"cublasLtMatmulDescDestroy", &functions.MatmulDescDestroy},
      {"cublasLtMatmulDescSetAttribute", &functions.MatmulDescSetAttribute},
      {"cublasLtMatmulPreferenceCreate", &functions.MatmulPreferenceCreate},
      {"cublasLtMatmulPreferenceDestroy", &functions.MatmulPreferenceDestroy},
      {"cublasLtMatmulPreferenceSetAttribute",
       &functions.MatmulPreferenceSetAttribute},
      {"cublasLtMatrixLayoutCreate", &functions.MatrixLayoutCreate},
      {"cublasLtMatrixLayoutDestroy", &functions.MatrixLayoutDestroy},
  }));
  return functions;
}

}  // namespace

absl::StatusOr<const CublasLt*> LoadCublasLt() { return BindOnce(&Bind); }

}  // namespace tributary::cuda
