// Work distribution and dropout of forward and backward attention. For .cu
// files only.
//
// A block of kSide x kSide threads processes a tile of kTile queries by kTile
// keys. Each thread holds 4 x 4 scores: thread (down, across) holds the scores
// in rows 4 down + i and columns 4 across + j, for i and j in [0, 4).
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_ATTENTION_TILE_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_ATTENTION_TILE_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "common/cuda/launch.h"
#include "common/numerics/philox.h"
#include "worker/device/cuda/kernels/attention.h"
#include "worker/device/ops/attention_ops.h"

namespace tributary::cuda {

inline constexpr int kTile = 64;
inline constexpr int kSide = kTile / 4;
inline constexpr int kTileThreads = kSide * kSide;

// A matrix of one head, [count, size]. `stride` is the number of elements from
// one row to the next.
template <typename T>
struct HeadMatrix {
  const T* data;
  int count, size, stride;  // 64 bits would make nvcc spill registers.
};

// The work of one thread block: tile number `tile` (a group of consecutive
// queries or keys) of head `head` of sequence `batch`, for the kTile columns of
// the head that start at `first_column`.
struct BlockPlace {
  int batch, head, tile, first_column;
};

__host__ __device__ inline int64_t TilesOf(const AttentionShape& s) {
  return CeilDivide(s.time, kTile);
}
__host__ __device__ inline int64_t ColumnChunksOf(const AttentionShape& s) {
  return CeilDivide(s.head_size, kTile);
}
inline int64_t BlocksOf(const AttentionShape& s) {
  return s.batch * s.heads * TilesOf(s) * ColumnChunksOf(s);
}

// Returns the work of thread block number `block`, from 0 to BlocksOf(s) - 1.
// Blocks are ordered by tile, then by head, so that blocks that run at the same
// time have equal amounts of work.
__device__ inline BlockPlace PlaceOf(const AttentionShape& s, int64_t block) {
  const int64_t chunks = ColumnChunksOf(s), heads = s.batch * s.heads;
  const int64_t head = block / chunks % heads;
  return {static_cast<int>(head / s.heads), static_cast<int>(head % s.heads),
          static_cast<int>(block / chunks / heads),
          static_cast<int>(block % chunks) * kTile};
}

// Returns the length of the sequence that the thread block at `place`
// processes: the number of its positions that take part in attention, without
// padding.
__device__ inline int LengthOf(const AttentionShape& s, const BlockPlace& place,
                               const int32_t* lengths) {
  return lengths == nullptr ? static_cast<int>(s.time) : lengths[place.batch];
}
// Returns the number of keys that query number `query` attends to in a sequence
// of length `length`.
__device__ inline int KeysOf(const AttentionShape& s, int length, int query) {
  return s.causal ? query + 1 : length;
}

// Returns the offset in qkv of the first element of the head's matrix q, k or v
// (part 0, 1 or 2): element [batch, 0, part, head, 0].
__device__ inline int64_t PartOffset(const AttentionShape& s,
                                     const BlockPlace& place, int part) {
  return ((place.batch * s.time * 3 + part) * s.heads + place.head) *
         s.head_size;
}
template <typename T>
__device__ inline HeadMatrix<T> PartOf(const AttentionShape& s,
                                       const BlockPlace& place, const T* qkv,
                                       int part) {
  return {qkv + PartOffset(s, place, part), static_cast<int>(s.time),
          static_cast<int>(s.head_size),
          static_cast<int>(3 * s.heads * s.head_size)};
}
// Returns the offset in y of the head's first element: element [batch, 0, head,
// 0].
__device__ inline int64_t OutputOffset(const AttentionShape& s,
                                       const BlockPlace& place) {
  return (place.batch * s.time * s.heads + place.head) * s.head_size;
}
template <typename T>
__device__ inline HeadMatrix<T> OutputOf(const AttentionShape& s,
                                         const BlockPlace& place, const T* y) {
  return {y + OutputOffset(s, place), static_cast<int>(s.time),
          static_cast<int>(s.head_size),
          static_cast<int>(s.heads * s.head_size)};
}

__device__ inline int Down() { return threadIdx.x / kSide; }
__device__ inline int Across() { return threadIdx.x % kSide; }

template <typename T>
__device__ inline float ElementOrZero(const HeadMatrix<T>& m, int row,
                                      int column) {
  return row < m.count && column < m.size
             ? float{m.data[static_cast<int64_t>(row) * m.stride + column]}
             : 0.0f;
}

// Stores to[first_row + 4 * down + i, first_column + 4 * across + j] =
// values[i][j] for i, j < 4, where (down, across) is the position of the thread
// in its block. `to` has `count` rows and `size` columns; elements outside of
// it are skipped. `stride` is the number of elements of `to` from one row to
// the next.
template <typename T>
__device__ inline void StoreRows(const float (&values)[4][4], int first_row,
                                 int first_column, int64_t count, int64_t size,
                                 int64_t stride, T* to) {
  for (int i = 0; i < 4; ++i) {
    const int row = first_row + 4 * Down() + i;
    for (int j = 0; j < 4; ++j) {
      const int column = first_column + 4 * Across() + j;
      if (row < count && column < size)
        to[row * stride + column] = values[i][j];
    }
  }
}

// Returns a copy of `dropout` whose random stream includes the offset set by
// Device::SetRandomBase. Reads the offset when the kernel runs, so captured
// kernels use the current offset.
__device__ inline AttentionDropout Based(AttentionDropout dropout) {
  if (dropout.rate > 0.0f) dropout.stream = dropout.base->Of(dropout.stream);
  return dropout;
}

// Returns a mask of four bits: bit n is set if dropout keeps the probability
// with the number first + n (see ProbabilityNumber).
__device__ inline unsigned KeptFour(const AttentionDropout& dropout,
                                    uint64_t first) {
  if (dropout.rate <= 0.0f) return 15;
  const int skipped = static_cast<int>(first % 4);
  unsigned kept = 0;
  for (int half = 0; half < (skipped == 0 ? 1 : 2); ++half) {
    const PhiloxBlock numbers = dropout.stream.Block(first / 4 + half);
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      if (UniformFloat(numbers[n]) >= dropout.rate)
        kept |= 1u << (4 * half + n);
    }
  }
  return kept >> skipped & 15;
}

// Returns the index, in the random stream of dropout, of the number that
// decides whether the probability of key `key` for query `query` is kept.
__device__ inline uint64_t ProbabilityNumber(const AttentionShape& s,
                                             const BlockPlace& place,
                                             int64_t query, int64_t key) {
  return static_cast<uint64_t>(
      ((place.batch * s.heads + place.head) * s.time + query) * s.time + key);
}

// Returns 16 bits: bit 4 n + m is set if dropout keeps the probability of key
// `key` + m for query `query` + n. Call it where few registers are in use, to
// avoid register spills.
__device__ inline unsigned KeptTile(const AttentionShape& s,
                                    const BlockPlace& place,
                                    const AttentionDropout& dropout, int query,
                                    int key) {
  unsigned kept = 0;
#pragma unroll 1
  for (int n = 0; n < 4; ++n) {
    kept |= KeptFour(dropout, ProbabilityNumber(s, place, query + n, key))
            << 4 * n;
  }
  return kept;
}

}  // namespace tributary::cuda

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_ATTENTION_TILE_H_
