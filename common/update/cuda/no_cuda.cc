// Replaces cuda_passes.cc in a build without CUDA.
#include "absl/status/status.h"
#include "common/update/cuda/cuda_passes.h"

namespace tributary {

absl::Status CheckCudaPasses(int /*ordinal*/) {
  return absl::FailedPreconditionError(
      "this build has no CUDA; build where /usr/local/cuda exists");
}

absl::StatusOr<ChunkPasses> MakeCudaPasses(int ordinal, int /*pass_streams*/,
                                           const ChunkPassPlan& /*plan*/) {
  return CheckCudaPasses(ordinal);
}

}  // namespace tributary
