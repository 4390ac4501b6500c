// The part of a kernel that sums squares. For .cu files only.
#ifndef TRIBUTARY_COMMON_OPTIMIZER_CUDA_SQUARE_SUMS_KERNEL_H_
#define TRIBUTARY_COMMON_OPTIMIZER_CUDA_SQUARE_SUMS_KERNEL_H_

#include <cstdint>

#include "common/cuda/flushed.h"
#include "common/cuda/launch.h"
#include "common/optimizer/cuda/square_sums.h"

namespace tributary::cuda {

// Number of elements of a tile, a part of a chunk. While warp 0 adds the
// squares of one tile, the other warps read the next tile.
inline constexpr int kSquareTile = 1024;

// A tile: consecutive elements of a chunk, in shared memory. `gradients` holds
// its elements, with zeros in place of running statistics (elements of group
// kStatistics). `statistics` holds the running statistics, with zeros in place
// of all other elements. Adding the square of a zero changes no sum, so the
// thread that adds needs no condition, and its loads from shared memory do not
// wait for each other. `gap` avoids bank conflicts between the two halves of
// the warp.
struct SquareTile {
  float gradients[kSquareTile];
  float gap[kRowElements];
  float statistics[kSquareTile];
};

// Computes the partial sums of squares of one chunk. All threads of a block of
// kBlockThreads threads must call this function. `tiles` is in shared memory.
__device__ inline void SumSquaresInBlock(const SquareSums& chunk,
                                         SquareTile (&tiles)[2]) {
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % kRowElements;
  double sum = 0;
  const int64_t tile_count = (chunk.elements + kSquareTile - 1) / kSquareTile;
  // Warp 0 adds the squares of tile t in iteration t + 1.
  for (int64_t t = 0; t <= tile_count; ++t) {
    if (thread >= kWarp) {
      const int64_t begin = t * kSquareTile;
      SquareTile& tile = tiles[t % 2];
      for (int i = thread - kWarp;
           i < kSquareTile && begin + i < chunk.elements;
           i += kBlockThreads - kWarp) {
        const float value = Flushed(chunk.x[begin + i]).value();
        const bool statistics = chunk.rows[(begin + i) / kRowElements].group ==
                                RowGroup::kStatistics;
        tile.gradients[i] = statistics ? 0.0f : value;
        tile.statistics[i] = statistics ? value : 0.0f;
      }
    } else if (t > 0) {
      const SquareTile& tile = tiles[(t - 1) % 2];
      const float* const values =
          thread < kRowElements ? tile.gradients : tile.statistics;
      const int64_t rest = chunk.elements - (t - 1) * kSquareTile;
      const int size =
          static_cast<int>(rest < kSquareTile ? rest : kSquareTile);
#pragma unroll 8
      for (int i = lane; i < size; i += kRowElements) {
        const double value = values[i];
        sum += value * value;  // The product is exact in double.
      }
    }
    __syncthreads();
  }
  if (thread < kSquareSums) chunk.sums[thread] = sum;
}

}  // namespace tributary::cuda

#endif  // TRIBUTARY_COMMON_OPTIMIZER_CUDA_SQUARE_SUMS_KERNEL_H_
