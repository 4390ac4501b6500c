// cuBLASLt's functions, loaded when first needed: see shared_library.h.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_LIBRARIES_CUBLASLT_LIBRARY_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_LIBRARIES_CUBLASLT_LIBRARY_H_

#include <cublasLt.h>

#include "absl/status/statusor.h"

namespace tributary::cuda {

// Those that we call, without their prefix.
struct CublasLt {
  decltype(&cublasLtCreate) Create;
  decltype(&cublasLtDestroy) Destroy;
  decltype(&cublasLtGetStatusString) GetStatusString;
  decltype(&cublasLtMatmul) Matmul;
  decltype(&cublasLtMatmulAlgoGetHeuristic) MatmulAlgoGetHeuristic;
  decltype(&cublasLtMatmulDescCreate) MatmulDescCreate;
  decltype(&cublasLtMatmulDescDestroy) MatmulDescDestroy;
  decltype(&cublasLtMatmulDescSetAttribute) MatmulDescSetAttribute;
  decltype(&cublasLtMatmulPreferenceCreate) MatmulPreferenceCreate;
  decltype(&cublasLtMatmulPreferenceDestroy) MatmulPreferenceDestroy;
  decltype(&cublasLtMatmulPreferenceSetAttribute) MatmulPreferenceSetAttribute;
  decltype(&cublasLtMatrixLayoutCreate) MatrixLayoutCreate;
  decltype(&cublasLtMatrixLayoutDestroy) MatrixLayoutDestroy;
};

// Loaded by the first call, for the process's lifetime; safe from any thread.
// FailedPrecondition if it cannot be.
absl::StatusOr<const CublasLt*> LoadCublasLt();

}  // namespace tributary::cuda

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_LIBRARIES_CUBLASLT_LIBRARY_H_
