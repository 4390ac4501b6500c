#include "deploy/tools/bench/gpu_optimizer.h"

#include <cuda_runtime.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "common/cuda/cuda_status.h"
#include "common/cuda/node_sums.h"
#include "common/cuda/stream.h"
#include "common/optimizer/cuda/chunk_rows.h"
#include "common/optimizer/cuda/update.h"

namespace tributary {
namespace {

using cuda::ChunkRow;
using cuda::ToStatus;

class CudaOptimizer final : public GpuOptimizer {
 public:
  CudaOptimizer(std::unique_ptr<cuda::Stream> stream, int64_t elements,
                const Optimizer* optimizer)
      : stream_(std::move(stream)),
        elements_(elements),
        optimizer_(*optimizer) {}

  ~CudaOptimizer() override {
    stream_->Activate();
    for (float* const slot : slots_) cudaFree(slot);
    cudaFree(rows_);
  }

  absl::Status Allocate(const std::vector<ChunkRow>& rows) {
    TRIBUTARY_RETURN_IF_ERROR(
        ToStatus(cudaMalloc(reinterpret_cast<void**>(&rows_),
                            rows.size() * sizeof(ChunkRow)),
                 "no memory for a benchmark's optimizer"));
    stream_->Enqueue("cudaMemcpyAsync", [&](cudaStream_t queue) {
      return cudaMemcpyAsync(rows_, rows.data(), rows.size() * sizeof(ChunkRow),
                             cudaMemcpyHostToDevice, queue);
    });
    for (int i = 0; i < optimizer_.slots(); ++i) {
      float* slot = nullptr;
      TRIBUTARY_RETURN_IF_ERROR(
          ToStatus(cudaMalloc(reinterpret_cast<void**>(&slot), bytes()),
                   "no memory for a benchmark's optimizer"));
      slots_.push_back(slot);
      stream_->Enqueue("cudaMemsetAsync", [&](cudaStream_t queue) {
        return cudaMemsetAsync(slot, 0, bytes(), queue);
      });
    }
    return stream_->Wait();
  }

  absl::Status Update(const UpdateStep& step,
                      absl::Span<float* const> gradients,
                      absl::Span<float* const> weights) override {
    stream_->Activate();
    for (size_t i = 1; i < gradients.size(); ++i) {
      cuda::AddNode(*stream_, cuda::NodeFormat::kFloat32, elements_,
                    gradients[i], gradients[0]);
    }
    const OptimizerStep numbers = optimizer_.At(step);
    cuda::ChunkUpdatePass pass;
    pass.elements = elements_;
    pass.rows = rows_;
    pass.sum = gradients[0];
    pass.weights = weights[0];
    pass.new_weights = weights[0];
    pass.slots = slots_;
    pass.gradient_scale = numbers.gradient_scale;
    pass.statistics_scale = numbers.statistics_scale;
    pass.decayed = numbers.decayed;
    pass.plain = numbers.plain;
    cuda::UpdateChunks(*stream_, {pass});
    for (size_t i = 1; i < weights.size(); ++i) {
      stream_->Enqueue("cudaMemcpyAsync", [&](cudaStream_t queue) {
        return cudaMemcpyAsync(weights[i], weights[0], bytes(),
                               cudaMemcpyDeviceToDevice, queue);
      });
    }
    return stream_->Wait();
  }

 private:
  size_t bytes() const {
    return static_cast<size_t>(elements_) * sizeof(float);
  }

  const std::unique_ptr<cuda::Stream> stream_;
  const int64_t elements_;  // Of an arena.
  const Optimizer& optimizer_;
  // In the GPU's memory.
  ChunkRow* rows_ = nullptr;
  std::vector<float*> slots_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<GpuOptimizer>> CreateGpuOptimizer(
    int ordinal, const ArenaLayout& layout, const Optimizer* optimizer) {
  TRIBUTARY_ASSIGN_OR_RETURN(std::unique_ptr<cuda::Stream> stream,
                             cuda::Stream::Create(ordinal));
  std::vector<ChunkRow> rows;
  for (int chunk = 0; chunk < layout.chunk_count(); ++chunk) {
    const std::vector<ChunkRow> next = cuda::RowsOf(layout, chunk);
    rows.insert(rows.end(), next.begin(), next.end());
  }
  auto made = std::make_unique<CudaOptimizer>(
      std::move(stream), layout.arena_elements(), optimizer);
  TRIBUTARY_RETURN_IF_ERROR(made->Allocate(rows));
  return made;
}

}  // namespace tributary
