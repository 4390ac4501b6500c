// Sums over the rows of a matrix. For .cu files only.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_COLUMN_SUMS_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_COLUMN_SUMS_H_

#include <algorithm>
#include <cstdint>

#include "common/cuda/launch.h"
#include "common/cuda/stream.h"
#include "worker/device/cuda/kernels/scratch.h"

namespace tributary::cuda {

// Divides the rows of a matrix into contiguous chunks (unrelated to
// ArenaLayout's chunks of parameters), so that many thread blocks can add rows
// at the same time. For each chunk and each tile of columns, one thread block
// computes the sums. FinishSums then adds the sums of the chunks. The order of
// additions depends only on the shape.
struct ColumnChunks {
  // The threads of a block: kLanes warps, each of which reads kColumns
  // consecutive elements of every kLanes-th row of the chunk.
  static constexpr int kColumns = kWarp, kLanes = 8;

  ColumnChunks(int64_t rows, int64_t width)
      : tiles(CeilDivide(width, kColumns)) {
    // About 1,024 blocks keep any GPU busy. With fewer than 64 rows per chunk,
    // adding the chunks' sums would cost more than the additional blocks save.
    const int64_t wanted = CeilDivide(1024, std::max<int64_t>(tiles, 1));
    rows_per_chunk = std::max<int64_t>(CeilDivide(rows, wanted), 64);
    chunks = std::max<int64_t>(CeilDivide(rows, rows_per_chunk), 1);
  }

  int64_t tiles;           // Number of column tiles.
  int64_t rows_per_chunk;  // Maximum number of rows in a chunk.
  int64_t chunks;          // Number of chunks; at least 1.
};

// Computes kSums sums for each column of each chunk. For each row of the chunk,
// term(row, column, sums) adds the contribution of one element to each of
// sums[kSums]. Stores sums[s] in partials[chunk, s, column].
template <int kSums, typename Term>
__global__ void SumChunksKernel(int64_t rows, int64_t width,
                                ColumnChunks layout, Term term,
                                float* partials) {
  __shared__ float lanes[kSums][ColumnChunks::kLanes][ColumnChunks::kColumns];
  const int64_t chunk = blockIdx.x / layout.tiles;
  const int64_t column =
      blockIdx.x % layout.tiles * ColumnChunks::kColumns + threadIdx.x;
  const int64_t begin = chunk * layout.rows_per_chunk;
  const int64_t limit = begin + layout.rows_per_chunk;
  const int64_t end = limit < rows ? limit : rows;
  float sums[kSums] = {};
  if (column < width) {
    for (int64_t r = begin + threadIdx.y; r < end; r += ColumnChunks::kLanes) {
      term(r, column, sums);
    }
  }
  for (int s = 0; s < kSums; ++s) lanes[s][threadIdx.y][threadIdx.x] = sums[s];
  __syncthreads();
  if (column >= width) return;
  // For each of the kSums sums, one warp adds the partial sums of the kLanes
  // warps.
  for (int s = threadIdx.y; s < kSums; s += ColumnChunks::kLanes) {
    float sum = 0;
    for (int lane = 0; lane < ColumnChunks::kLanes; ++lane) {
      sum += lanes[s][lane][threadIdx.x];
    }
    partials[(chunk * kSums + s) * width + column] = sum;
  }
}

template <int kSums>
struct ColumnOutputs {
  float* sums[kSums];  // Each has the shape [width]; null skips it.
};

// Number of threads of FinishSumsKernel that together compute the sum of one
// column.
inline constexpr int kFinishLanes = 32;

// Computes outputs.sums[s][c] = sum of partials[chunk, s, c] over all chunks.
// Each thread block computes 32 columns c for one s. Of the kFinishLanes
// threads of a column, thread n adds chunks n, n + kFinishLanes, ...; then the
// sums of these threads are added in order.
template <int kSums>
__global__ void __launch_bounds__(kWarp* kFinishLanes)
    FinishSumsKernel(int64_t chunks, int64_t width,
                     const float* __restrict__ partials,
                     ColumnOutputs<kSums> outputs) {
  __shared__ float lanes[kFinishLanes][kWarp];
  const int s = static_cast<int>(blockIdx.x % kSums);
  const int64_t c = blockIdx.x / kSums * kWarp + threadIdx.x;
  float sum = 0;
  if (c < width) {
#pragma unroll 4
    for (int64_t chunk = threadIdx.y; chunk < chunks; chunk += kFinishLanes) {
      sum += partials[(chunk * kSums + s) * width + c];
    }
  }
  lanes[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  // Selects the pointer in a loop with constant indexes. For an index known
  // only at run time, nvcc would put the array into local memory.
  float* output = nullptr;
#pragma unroll
  for (int k = 0; k < kSums; ++k) {
    if (k == s) output = outputs.sums[k];
  }
  if (threadIdx.y > 0 || c >= width || output == nullptr) return;
  for (int lane = 1; lane < kFinishLanes; ++lane) {
    sum += lanes[lane][threadIdx.x];
  }
  output[c] = sum;
}

// Queues FinishSumsKernel, which adds the sums of all chunks of rows.
template <int kSums>
void FinishSums(Stream& stream, const char* operation, int64_t chunks,
                int64_t width, const float* partials,
                const ColumnOutputs<kSums>& outputs) {
  Launch(stream, operation, CeilDivide(width, kWarp) * kSums,
         dim3(kWarp, kFinishLanes), &FinishSumsKernel<kSums>, chunks, width,
         partials, outputs);
}

// Sets outputs.sums[s][c] to the sum, over all rows r, of the contribution that
// term(r, c, sums) adds to sums[s]. `scratch` is overwritten.
template <int kSums, typename Term>
void SumColumns(Stream& stream, const char* operation, Scratch& scratch,
                int64_t rows, int64_t width, const Term& term,
                const ColumnOutputs<kSums>& outputs) {
  const ColumnChunks layout(rows, width);
  float* const partials = scratch.Floats(layout.chunks * kSums * width);
  Launch(stream, operation, layout.tiles * layout.chunks,
         dim3(ColumnChunks::kColumns, ColumnChunks::kLanes),
         &SumChunksKernel<kSums, Term>, rows, width, layout, term, partials);
  FinishSums<kSums>(stream, operation, layout.chunks, width, partials, outputs);
}

}  // namespace tributary::cuda

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_COLUMN_SUMS_H_
