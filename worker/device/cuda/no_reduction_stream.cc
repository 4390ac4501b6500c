#include "worker/device/cuda/cuda_reduction_stream.h"

namespace tributary {

absl::StatusOr<std::unique_ptr<ReductionStream>> CreateCudaReductionStream(
    const std::string& /*bus_id*/, const ReductionStream::Plan& /*plan*/) {
  return absl::FailedPreconditionError("this build has no CUDA");
}

}  // namespace tributary
