#include "common/cuda/flushed.h"
#include "common/cuda/launch.h"
#include "server/store/cuda/square_sums.h"

namespace tributary::cuda {
namespace {

// Warp 0 adds up one tile while the others read the next.
constexpr int kTile = 2048;

__global__ void SumSquaresKernel(int64_t count, const float* x,
                                 const ChunkRow* rows, double* sums) {
  __shared__ float tiles[2][kTile];
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % kRowElements;
  const bool statistics = thread / kRowElements == 1;
  double sum = 0;
  const int64_t tile_count = (count + kTile - 1) / kTile;
  // Tile t is added up in round t + 1.
  for (int64_t t = 0; t <= tile_count; ++t) {
    if (thread >= kWarp) {
      const int64_t begin = t * kTile;
      float* const tile = tiles[t % 2];
      for (int i = thread - kWarp; i < kTile && begin + i < count;
           i += kBlockThreads - kWarp) {
        tile[i] = Flushed(x[begin + i]).value();
      }
    } else if (t > 0) {
      const int64_t begin = (t - 1) * kTile;
      const float* const tile = tiles[(t - 1) % 2];
      const int64_t rest = count - begin;
      const int size = static_cast<int>(rest < kTile ? rest : kTile);
      for (int i = lane; i < size; i += kRowElements) {
        const RowGroup group = rows[(begin + i) / kRowElements].group;
        if ((group == RowGroup::kStatistics) != statistics) continue;
        const double value = tile[i];
        sum += value * value;  // The product is exact.
      }
    }
    __syncthreads();
  }
  if (thread < kSquareSums) sums[thread] = sum;
}

}  // namespace

cudaError_t FindSumKernels() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, &SumSquaresKernel);
}

void SumSquares(Stream& stream, int64_t count, const float* x,
                const ChunkRow* rows, double* sums) {
  Launch(stream, "SumSquares", /*blocks=*/1, kBlockThreads, &SumSquaresKernel,
         count, x, rows, sums);
}

}  // namespace tributary::cuda
