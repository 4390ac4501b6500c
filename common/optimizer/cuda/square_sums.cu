#include <algorithm>

#include "common/cuda/launch.h"
#include "common/cuda/neighbours.h"
#include "common/optimizer/cuda/square_sums.h"
#include "common/optimizer/cuda/square_sums_kernel.h"

namespace tributary::cuda {
namespace {

// Number of tiles that a thread block sums, one after another: enough to let
// warps load while others sum, and few enough that a thread block ends soon.
constexpr int64_t kTilesPerBlock = 4;

struct ChunkGroup {
  int64_t blocks = 0;  // Number of thread blocks of each chunk.
  SquareSums chunks[kSquareChunks];
};

__global__ void __launch_bounds__(kBlockThreads)
    SumSquaresKernel(const ChunkGroup group) {
  __shared__ SquareTile tiles[2];
  const SquareSums& chunk = group.chunks[blockIdx.x / group.blocks];
  ForEachTile(chunk, blockIdx.x % group.blocks, group.blocks, tiles,
              [&](int64_t i, const ChunkRow&) {
                return FlushedFour(LoadGroup(chunk.x + i));
              });
}

}  // namespace

cudaError_t FindSumKernels() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, &SumSquaresKernel);
}

void SumSquares(Stream& stream, absl::Span<const SquareSums> chunks) {
  ChunkGroup group;
  for (const SquareSums& chunk : chunks) {
    group.blocks = std::max(
        group.blocks, CeilDivide(SquareBlocks(chunk.elements), kTilesPerBlock));
  }
  std::copy(chunks.begin(), chunks.end(), group.chunks);
  Launch(stream, "SumSquares",
         static_cast<int64_t>(chunks.size()) * group.blocks, kBlockThreads,
         &SumSquaresKernel, group);
}

}  // namespace tributary::cuda
