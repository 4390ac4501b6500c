// Replacement for NCCL in builds without CUDA.
#include "worker/device/cuda/libraries/nccl_library.h"

namespace tributary {

absl::StatusOr<NcclLibrary*> LoadNccl() {
  return absl::FailedPreconditionError(
      "this build has no CUDA; build where /usr/local/cuda exists");
}

}  // namespace tributary
