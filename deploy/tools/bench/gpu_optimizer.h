// The optimizer of a process that trains alone on a GPU.
#ifndef TRIBUTARY_DEPLOY_TOOLS_BENCH_GPU_OPTIMIZER_H_
#define TRIBUTARY_DEPLOY_TOOLS_BENCH_GPU_OPTIMIZER_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/optimizer/optimizer.h"
#include "common/parameters/arena_layout.h"

namespace tributary {

// Updates weights in a GPU's memory, and keeps the optimizer's state in the
// same memory. Not thread-safe.
class GpuOptimizer {
 public:
  virtual ~GpuOptimizer() = default;

  // Adds gradients[1], gradients[2], ... in order to gradients[0], updates
  // weights[0] with the sum, and copies weights[0] to the other elements of
  // `weights`. All elements of both spans are arenas (all gradients or all
  // weights of the model in one array) in the GPU's memory. No other thread or
  // stream may use them during the call. Blocks until the GPU has finished.
  // Returns the first error of the GPU; later calls return the same error.
  virtual absl::Status Update(const UpdateStep& step,
                              absl::Span<float* const> gradients,
                              absl::Span<float* const> weights) = 0;
};

// Uses GPU number `ordinal`. `optimizer` must outlive the result. Returns
// ResourceExhausted if the state does not fit into the GPU's memory, and
// FailedPrecondition in a build without CUDA.
absl::StatusOr<std::unique_ptr<GpuOptimizer>> CreateGpuOptimizer(
    int ordinal, const ArenaLayout& layout, const Optimizer* optimizer);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_BENCH_GPU_OPTIMIZER_H_
