// In builds without CUDA.
#include "absl/status/status.h"
#include "deploy/tools/bench/gpu_optimizer.h"

namespace tributary {

absl::StatusOr<std::unique_ptr<GpuOptimizer>> CreateGpuOptimizer(
    int /*ordinal*/, const ArenaLayout& /*layout*/,
    const Optimizer* /*optimizer*/) {
  return absl::FailedPreconditionError("this build has no CUDA");
}

}  // namespace tributary
