// Launches kernels. For .cu files only.
#ifndef TRIBUTARY_COMMON_CUDA_LAUNCH_H_
#define TRIBUTARY_COMMON_CUDA_LAUNCH_H_

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "common/cuda/stream.h"

namespace tributary::cuda {

inline constexpr int kWarp = 32;

// Default number of threads per block.
inline constexpr int kBlockThreads = 256;

constexpr int64_t CeilDivide(int64_t n, int64_t divisor) {
  return (n + divisor - 1) / divisor;
}

// Queues kernel(arguments...) on `stream`, with `blocks` blocks of `threads`
// threads. Does nothing if `blocks` is 0 or the stream has failed. The stream
// records errors under the name `operation`.
template <typename... Parameters, typename... Arguments>
void Launch(Stream& stream, const char* operation, int64_t blocks, dim3 threads,
            void (*kernel)(Parameters...), const Arguments&... arguments) {
  if (blocks == 0) return;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = threads;
  config.stream = stream.get();
  stream.Enqueue(operation, [&](cudaStream_t) {
    return cudaLaunchKernelEx(&config, kernel, arguments...);
  });
}

// Maximum number of blocks that ForEach and ForEachInRows launch. This many
// blocks keep any GPU busy, and their threads loop over all elements.
inline constexpr int64_t kMaximumBlocks = 1 << 16;

template <typename Function>
__global__ void ForEachKernel(int64_t count, Function function) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < count; i += step) {
    function(i);
  }
}

// Queues a kernel that calls function(i) for each i in [0, count), in any
// order.
template <typename Function>
void ForEach(Stream& stream, const char* operation, int64_t count,
             const Function& function) {
  const int64_t blocks =
      std::min(CeilDivide(count, kBlockThreads), kMaximumBlocks);
  Launch(stream, operation, blocks, kBlockThreads, &ForEachKernel<Function>,
         count, function);
}

template <typename Function>
__global__ void ForEachInRowsKernel(int64_t rows, int64_t width,
                                    Function function) {
  for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    for (int64_t c = threadIdx.x; c < width; c += blockDim.x) function(r, c);
  }
}

// Queues a kernel that calls function(r, c) for each row r in [0, rows) and
// column c in [0, width), in any order. Faster than ForEach, which would need
// divisions to compute r and c from one index.
template <typename Function>
void ForEachInRows(Stream& stream, const char* operation, int64_t rows,
                   int64_t width, const Function& function) {
  const int64_t threads =
      std::min<int64_t>(CeilDivide(width, kWarp) * kWarp, kBlockThreads);
  if (threads == 0) return;
  Launch(stream, operation, std::min(rows, kMaximumBlocks),
         static_cast<unsigned>(threads), &ForEachInRowsKernel<Function>, rows,
         width, function);
}

}  // namespace tributary::cuda

#endif  // TRIBUTARY_COMMON_CUDA_LAUNCH_H_
