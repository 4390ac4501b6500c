// Tiles and products of bfloat16 attention for head sizes of 32, 64 and 128,
// following Dao, "FlashAttention-2", 2023. For .cu files only.
//
// A thread block consists of kFragmentWarps warps. A warp owns kM parts of 16
// rows of the result, and keeps its scores, probabilities and sums in
// registers, in the layout of MultiplyAdd's d: with g = lane / 4 and t = lane %
// 4, sums[m][n] holds rows 16 m + g (elements 0, 1) and 16 m + g + 8 (elements
// 2, 3), columns 8 n + 2 t and 8 n + 2 t + 1. The other operand of its products
// (keys and values in forward; keys and values, or queries and gradients, in
// backward) is copied to shared memory tile by tile: one tile is copied while
// the previous one is used.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_ATTENTION_FRAGMENTS_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_ATTENTION_FRAGMENTS_H_

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <initializer_list>

#include "worker/device/cuda/kernels/attention_tile.h"
#include "worker/device/cuda/kernels/bfloat16.h"
#include "worker/device/cuda/kernels/instructions.h"
#include "worker/device/cuda/kernels/reduction.h"

namespace tributary::cuda {

inline constexpr int kFragmentWarps = 4;
inline constexpr int kFragmentThreads = kFragmentWarps * kWarp;
inline constexpr float kLog2E = 1.44269504f;

__device__ inline int LaneInWarp() { return threadIdx.x % kWarp; }
__device__ inline int WarpInBlock() { return threadIdx.x / kWarp; }
__device__ inline int FragmentRow() { return LaneInWarp() / 4; }         // g
__device__ inline int FragmentColumn() { return LaneInWarp() % 4 * 2; }  // 2 t

// Shared memory for two tiles. A tile consists of kRows rows of each of two
// matrices of a head, such as its keys and values; each row has kSize elements.
// Before the first tile is copied, the warps also use this memory to load the
// rows that they keep in registers.
template <int kSize, int kRows>
struct alignas(128) TilePairs {
  static constexpr int kMatrixBytes = kRows * kSize * 2;

  // Returns the address in shared memory of matrix number `part`, 0 or 1, of
  // tile number `tile`.
  __device__ SharedAddress Matrix(int tile, int part) const {
    return SharedAddressOf(elements) + (tile % 2 * 2 + part) * kMatrixBytes;
  }

  Bfloat16 elements[4 * kRows * kSize];
};

// Returns the offset in bytes of group number `group` in row `row` of a matrix
// whose rows have kSize elements. A group is eight consecutive elements. Groups
// are permuted within a row: one instruction loads the same group of eight
// consecutive rows, and the permutation puts these eight groups into different
// banks of shared memory. Callers need not call this function for every group:
// adding 16 rows adds 32 * kSize to the offset, and if group g, 0 or 1, has the
// offset o, then group g + 2 * n of the same row has the offset o ^ (32 * n).
template <int kSize>
__device__ inline int OffsetOfGroup(int row, int group) {
  const int flipped = kSize >= 64 ? row % 8 : row / 2 % 4;
  return row * kSize * 2 + (group ^ flipped) * 16;
}

// Begins an asynchronous copy of rows [first_row, first_row + kRows) of m to
// shared memory. Rows outside of m become zero.
template <int kSize, int kRows>
__device__ inline void CopyRows(const HeadMatrix<Bfloat16>& m, int first_row,
                                SharedAddress to) {
  constexpr int kGroups = kSize / 8;
  constexpr int kRowsAtOnce = kFragmentThreads / kGroups;
  static_assert(kRows % kRowsAtOnce == 0, "every thread copies as much");
  const int row = threadIdx.x / kGroups, group = threadIdx.x % kGroups;
  const int stride = static_cast<int>(m.stride);
  const int left = static_cast<int>(m.count) - first_row - row;
  int from = (first_row + row) * stride + group * 8;
  to += OffsetOfGroup<kSize>(row, group);
#pragma unroll
  for (int n = 0; n < kRows; n += kRowsAtOnce) {
    const bool inside = n < left;
    CopyAsync<16>(to + n * kSize * 2, m.data + (inside ? from : 0), inside);
    from += kRowsAtOnce * stride;
  }
}

// A lane's part of 16 rows of a matrix, in registers, in the layout of operand
// `a` of MultiplyAdd.
template <int kSize>
using RowFragments = uint32_t[kSize / 16][4];

// Loads 16 rows of a matrix, which start at the address `rows` in shared
// memory, into the registers of a warp's lanes. All lanes of the warp must call
// this function.
template <int kSize>
__device__ inline void LoadRows(SharedAddress rows,
                                RowFragments<kSize>& fragments) {
  const int offset = OffsetOfGroup<kSize>(LaneInWarp() % 16, LaneInWarp() / 16);
#pragma unroll
  for (int k = 0; k < kSize / 16; ++k) {
    LoadMatrices(rows + (offset ^ 32 * k), fragments[k]);
  }
}

// Loads this warp's rows of a matrix in shared memory into registers: 16 * kM
// consecutive rows, starting at row 16 * kM * w for warp number w of the block.
template <int kSize, int kM>
__device__ inline void LoadWarpRows(SharedAddress matrix,
                                    RowFragments<kSize> (&fragments)[kM]) {
#pragma unroll
  for (int m = 0; m < kM; ++m) {
    LoadRows<kSize>(matrix + (WarpInBlock() * kM + m) * 16 * kSize * 2,
                    fragments[m]);
  }
}

// Calls use(tile) for each tile in [first, end). copy(tile) must begin to copy
// a tile to shared memory; the copy runs while the previous tile is used. All
// threads of the block must call this function.
template <typename Copy, typename Use>
__device__ inline void ForEachTile(int first, int end, const Copy& copy,
                                   const Use& use) {
  if (first < end) copy(first);
  for (int tile = first; tile < end; ++tile) {
    // After the barrier, this tile is completely in shared memory, and no
    // thread reads the previous tile any more.
    WaitForCopies();
    __syncthreads();
    if (tile + 1 < end) copy(tile + 1);
    use(tile);
  }
}

// For each m < kM, adds to sums[m] the product of a[m] and the transpose of the
// first 8 kN rows of the matrix in shared memory at `tile`. `a` and `sums` are
// distributed over the lanes of the warp, all of which must call this function.
template <int kSize, int kM, int kN>
__device__ inline void AddInner(const RowFragments<kSize> (&a)[kM],
                                SharedAddress tile, float (&sums)[kM][kN][4]) {
  const int lane = LaneInWarp();
  const int offset =
      OffsetOfGroup<kSize>(lane % 8 + lane / 16 * 8, lane / 8 % 2);
#pragma unroll
  for (int k = 0; k < kSize / 16; ++k) {
#pragma unroll
    for (int n = 0; n < kN; n += 2) {
      uint32_t b[4];
      LoadMatrices(tile + n * 8 * kSize * 2 + (offset ^ 32 * k), b);
#pragma unroll
      for (int m = 0; m < kM; ++m) {
        MultiplyAdd(sums[m][n], a[m][k], b[0], b[1]);
        MultiplyAdd(sums[m][n + 1], a[m][k], b[2], b[3]);
      }
    }
  }
}

// For each m < kM, adds to sums[m] the product of weights[m], rounded to
// bfloat16, and the first 8 kN rows of the matrix in shared memory at `tile`.
// `weights` and `sums` are distributed over the lanes of the warp, all of which
// must call this function.
template <int kSize, int kM, int kN>
__device__ inline void AddWeighted(const float (&weights)[kM][kN][4],
                                   SharedAddress tile,
                                   float (&sums)[kM][kSize / 8][4]) {
  const int offset = OffsetOfGroup<kSize>(LaneInWarp() % 16, LaneInWarp() / 16);
#pragma unroll
  for (int k = 0; k < kN / 2; ++k) {
    uint32_t a[kM][4];
#pragma unroll
    for (int m = 0; m < kM; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float(&w)[4] = weights[m][2 * k + i / 2];
        a[m][i] = PackBfloat16(w[i % 2 * 2], w[i % 2 * 2 + 1]);
      }
    }
#pragma unroll
    for (int n = 0; n < kSize / 16; ++n) {
      uint32_t b[4];
      LoadTransposedMatrices(tile + k * 16 * kSize * 2 + (offset ^ 32 * n), b);
#pragma unroll
      for (int m = 0; m < kM; ++m) {
        MultiplyAdd(sums[m][2 * n], a[m], b[0], b[1]);
        MultiplyAdd(sums[m][2 * n + 1], a[m], b[2], b[3]);
      }
    }
  }
}

// Multiplies 16 rows, which the lanes of the warp hold in `sums`, by factors,
// rounds the products to bfloat16, and stores them in rows [first_row,
// first_row + 16) of `to`. Skips rows that are not below `count`. With g = lane
// / 4, the lane's factors[0] applies to row first_row + g, and its factors[1]
// to row first_row + g + 8.
template <int kSize>
__device__ inline void StoreFragments(const float (&sums)[kSize / 8][4],
                                      const float (&factors)[2], int first_row,
                                      int64_t count, int64_t stride,
                                      Bfloat16* to) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = first_row + FragmentRow() + 8 * half;
    if (row >= count) continue;
    Bfloat16* const at = to + row * stride + FragmentColumn();
#pragma unroll
    for (int n = 0; n < kSize / 8; ++n) {
      const uint32_t word = PackBfloat16(sums[n][2 * half] * factors[half],
                                         sums[n][2 * half + 1] * factors[half]);
      StoreWord(at + 8 * n, word);
    }
  }
}

// States which of a lane's attention scores dropout keeps, for up to 8 parts. A
// part consists of the four scores that the lane holds in the result `d` of one
// MultiplyAdd. Bit 4 * n of element[e] is set if element e of part n is kept.
struct Kept {
  uint32_t element[4];
};

__device__ inline bool IsKept(const Kept& kept, int n, int e) {
  return kept.element[e] >> 4 * n & 1;
}

template <int kN>
__device__ inline void ZeroDropped(const Kept& kept, float (&p)[kN][4]) {
#pragma unroll
  for (int n = 0; n < kN; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (!IsKept(kept, n, e)) p[n][e] = 0;
    }
  }
}

// Returns which of the calling lane's scores dropout keeps, in a matrix of 16
// queries (rows) by 8 kN keys (columns). `first` is the ProbabilityNumber of
// the first query and key. All lanes of the warp must call this function: each
// lane draws random numbers for four adjacent keys of one query at a time, and
// the lanes then exchange the results.
template <int kN>
__device__ inline Kept KeptByQuery(const AttentionDropout& dropout,
                                   uint64_t first, int64_t time) {
  const int lane = LaneInWarp();
  const uint64_t drawn = first + lane / 2 * time + lane % 2 * 4;
  uint32_t mask = 0;
#pragma unroll
  for (int n = 0; n < kN; ++n)
    mask |= KeptFour(dropout, drawn + 8 * n) << 4 * n;
  const int source = FragmentRow() * 2 + FragmentColumn() / 4;
  const int shift = FragmentColumn() % 4;
  const uint32_t upper = __shfl_sync(kAllLanes, mask, source) >> shift;
  const uint32_t lower = __shfl_sync(kAllLanes, mask, source + 16) >> shift;
  return {{upper, upper >> 1, lower, lower >> 1}};
}

// Returns which of the calling lane's scores dropout keeps, in a matrix of 16
// keys (rows) by 8 kN queries (columns). See KeptByQuery for the arguments. All
// lanes of the warp must call this function.
template <int kN>
__device__ inline Kept KeptByKey(const AttentionDropout& dropout,
                                 uint64_t first, int64_t time) {
  const int lane = LaneInWarp();
  const uint64_t drawn = first + lane % 8 * time + lane / 8 * 4;
  uint32_t mask = 0;
#pragma unroll
  for (int n = 0; n < kN; ++n) {
    mask |= KeptFour(dropout, drawn + 8 * n * time) << 4 * n;
  }
  const int source = FragmentRow() / 4 * 8 + FragmentColumn();
  const int shift = FragmentRow() % 4;
  Kept kept;
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    kept.element[e] =
        __shfl_sync(kAllLanes, mask, source + e % 2 + e / 2 * 16) >> shift;
  }
  return kept;
}

// Returns true if the kernels can process this shape and read or write these
// matrices. Each copy moves 16 bytes, so matrices must be aligned to 16 bytes.
// Offsets from the first element of a head have type int, also in tiles that
// extend beyond the last row. Sequences for which an offset could exceed an int
// are not supported.
inline bool SupportsFragments(const AttentionShape& s,
                              std::initializer_list<const Bfloat16*> matrices) {
  for (const Bfloat16* matrix : matrices) {
    if (reinterpret_cast<uintptr_t>(matrix) % 16 != 0) return false;
  }
  return (s.head_size == 32 || s.head_size == 64 || s.head_size == 128) &&
         (s.time + 128) * s.heads * s.head_size * 3 <= INT32_MAX;
}

// Returns the number of heads whose tiles should run at about the same time.
// The tiles of one head share data: in forward, its keys and values. The number
// is chosen such that the shared data of all these heads take about 16 MiB and
// stay in the L2 cache.
inline int64_t HeadsAtOnce(const AttentionShape& s) {
  const int64_t bytes = s.time * s.head_size * 4;
  return 0 < bytes && bytes < 16 << 20 ? (16 << 20) / bytes : 1;
}

// Returns the tile that thread block number `block` computes. There are batch *
// heads * tiles blocks. Blocks are ordered by group of `heads_at_once` heads,
// then by tile, then by head.
__device__ inline BlockPlace FragmentPlaceOf(const AttentionShape& s,
                                             int64_t tiles,
                                             int64_t heads_at_once,
                                             int64_t block) {
  const int64_t begin = block / (heads_at_once * tiles) * heads_at_once;
  const int64_t left = s.batch * s.heads - begin;
  const int64_t heads = left < heads_at_once ? left : heads_at_once;
  const int64_t inside = block - begin * tiles;
  const int64_t head = begin + inside % heads;
  return {static_cast<int>(head / s.heads), static_cast<int>(head % s.heads),
          static_cast<int>(inside / heads), /*first_column=*/0};
}

}  // namespace tributary::cuda

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_ATTENTION_FRAGMENTS_H_
