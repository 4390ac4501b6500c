#include "common/update/cuda/pass_tensors.h"

#include <cuda_runtime.h>

namespace tributary::cuda {
namespace {

// Rounds a number of elements of 4 bytes up, so that what follows is aligned.
int64_t Aligned(int64_t elements) {
  return (elements + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

int64_t SquareElements(const TensorParts& parts) {
  return Aligned(parts.blocks() *
                 int64_t{sizeof(BlockSquares) / sizeof(float)});
}

}  // namespace

int64_t RowElements(const ArenaLayout& layout, int chunk) {
  static_assert(sizeof(ChunkRow) == 2 * sizeof(float), "two elements");
  return Aligned(layout.ChunkSize(chunk) / kRowElements * 2);
}

int64_t PassTensors::Elements(const ArenaLayout& layout, int chunk) {
  return RowElements(layout, chunk) +
         SquareElements(TensorParts(layout, chunk));
}

PassTensors::PassTensors(PassGpu* gpu, const ArenaLayout& layout, int chunk)
    : parts_(layout, chunk),
      rows_(RowsOf(layout, chunk)),
      scaled_rows_(
          reinterpret_cast<ChunkRow*>(gpu->Take(RowElements(layout, chunk)))),
      squares_(
          reinterpret_cast<BlockSquares*>(gpu->Take(SquareElements(parts_)))),
      host_squares_(parts_.blocks()) {}

void PassTensors::BeginSum(const ChunkUpdatePass& direction,
                           PassStream* pass_stream) {
  if (parts_.blocks() == 0) return;
  Stream& stream = pass_stream->Use();
  parts_.Sum(stream, direction, squares_);
  stream.Enqueue("copying from the GPU", [&](cudaStream_t queue) {
    return cudaMemcpyAsync(host_squares_.data(), squares_,
                           host_squares_.size() * sizeof(BlockSquares),
                           cudaMemcpyDeviceToHost, queue);
  });
}

const ChunkRow* PassTensors::Scale(absl::Span<const float> trust_ratios,
                                   PassStream* pass_stream) {
  host_rows_ = rows_;
  parts_.Scale(trust_ratios, absl::MakeSpan(host_rows_));
  pass_stream->Use().Enqueue("copying a chunk's rows", [&](cudaStream_t queue) {
    return cudaMemcpyAsync(scaled_rows_, host_rows_.data(),
                           host_rows_.size() * sizeof(ChunkRow),
                           cudaMemcpyHostToDevice, queue);
  });
  return scaled_rows_;
}

}  // namespace tributary::cuda
