// The part of a kernel that sums squares. For .cu files only.
#ifndef TRIBUTARY_COMMON_OPTIMIZER_CUDA_SQUARE_SUMS_KERNEL_H_
#define TRIBUTARY_COMMON_OPTIMIZER_CUDA_SQUARE_SUMS_KERNEL_H_

#include <cstdint>

#include "common/cuda/flushed.h"
#include "common/cuda/launch.h"
#include "common/cuda/neighbours.h"
#include "common/optimizer/cuda/square_sums.h"

namespace tributary::cuda {

// The four consecutive floats that a thread loads at once. A row of
// kRowElements elements consists of whole groups of four.
using Four = Group<float>;
inline constexpr int kFour = kGroup<float>;
static_assert(kSquareBlock == kFour * kBlockThreads, "one group per thread");

// A block of kSquareBlock elements in shared memory, and which of its rows are
// running statistics.
struct SquareTile {
  Four fours[kBlockThreads];
  bool statistics[kSquareBlock / kRowElements];
};

// Computes the sums of the squares of the first `count` elements of `tile`, and
// writes them to `*squares`. All threads of a warp must call this function.
// Lanes 0 to 15 sum gradients, and lanes 16 to 31 sum running statistics. Lane
// n of each half adds the squares of the elements i with i % kRowElements = n,
// in ascending order of i.
__device__ inline void SumSquaresOfTile(const SquareTile& tile, int count,
                                        BlockSquares* squares) {
  static_assert(kWarp == 2 * kRowElements, "two halves");
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const bool statistics = lane >= kRowElements;
  const float* const column = tile.fours[0].values + lane % kRowElements;
  double sum = 0;
#pragma unroll 8
  for (int row = 0; row < count / kRowElements; ++row) {
    const double value =
        tile.statistics[row] == statistics ? column[row * kRowElements] : 0.0f;
    sum += value * value;  // The product is exact in double.
  }
  // Neighbours first, as in SumOfSquares.
#pragma unroll
  for (int distance = 1; distance < kRowElements; distance *= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, distance);
  }
  if (lane == 0) squares->gradients = sum;
  if (lane == kRowElements) squares->statistics = sum;
}

// Processes tiles `first`, first + step, ... of a chunk; a tile is a block of
// kSquareBlock elements. Calls load(i, row) for each group of four elements in
// a tile, where i is the offset of the group in the chunk, and `row` is the
// ChunkRow that contains the group. `load` returns four values; the sums of
// their squares in tile t are written to chunk.sums[t]. If chunk.sums is null,
// only calls `load`. All kBlockThreads threads of the thread block must call
// this function. `tiles` must be in shared memory.
template <typename Load>
__device__ inline void ForEachTile(const SquareSums& chunk, int64_t first,
                                   int64_t step, SquareTile (&tiles)[2],
                                   const Load& load) {
  const int thread = static_cast<int>(threadIdx.x);
  int turn = 0;
  for (int64_t t = first; t * kSquareBlock < chunk.elements; t += step) {
    SquareTile& tile = tiles[turn % 2];
    const int64_t begin = t * kSquareBlock;
    const int64_t i = begin + kFour * thread;
    if (i < chunk.elements) {
      const ChunkRow row = chunk.rows[i / kRowElements];
      const Four four = load(i, row);
      if (chunk.sums != nullptr) {
        tile.fours[thread] = four;
        if (i % kRowElements == 0) {
          tile.statistics[(i - begin) / kRowElements] =
              row.group == RowGroup::kStatistics;
        }
      }
    }
    if (chunk.sums == nullptr) continue;
    __syncthreads();
    // The warps take turns: one warp sums this tile while the others load the
    // next tile. No warp writes to this tile again before the next barrier,
    // where the summing warp has finished.
    if (thread / kWarp == turn % (kBlockThreads / kWarp)) {
      const int64_t rest = chunk.elements - begin;
      SumSquaresOfTile(
          tile, static_cast<int>(rest < kSquareBlock ? rest : kSquareBlock),
          chunk.sums + t);
    }
    ++turn;
  }
}

__device__ inline Four FlushedFour(Four four) {
#pragma unroll
  for (int n = 0; n < kFour; ++n) {
    four.values[n] = Flushed(four.values[n]).value();
  }
  return four;
}

}  // namespace tributary::cuda

#endif  // TRIBUTARY_COMMON_OPTIMIZER_CUDA_SQUARE_SUMS_KERNEL_H_
