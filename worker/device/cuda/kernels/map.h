// Applies a function to each element of a tensor. For .cu files only.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_MAP_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_MAP_H_

#include <algorithm>
#include <cstdint>

#include "common/cuda/launch.h"
#include "common/cuda/neighbours.h"
#include "common/cuda/stream.h"

namespace tributary::cuda {

inline constexpr int kMapped = 8;
template <typename T>
using Mapped = Neighbours<T, kMapped>;

template <typename From, typename To, typename Function>
__global__ void MapKernel(int64_t count, bool aligned, const From* x,
                          const From* z, To* y, Function function) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x * kMapped;
  for (int64_t first =
           (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) *
           kMapped;
       first < count; first += step) {
    if (aligned && first + kMapped <= count) {
      const auto a = *reinterpret_cast<const Mapped<From>*>(x + first);
      Mapped<From> b = a;
      if (z != nullptr) b = *reinterpret_cast<const Mapped<From>*>(z + first);
      Mapped<To> result;
#pragma unroll
      for (int n = 0; n < kMapped; ++n) {
        result.values[n] = function(float{a.values[n]}, float{b.values[n]});
      }
      *reinterpret_cast<Mapped<To>*>(y + first) = result;
    } else {
      const int64_t end = first + kMapped < count ? first + kMapped : count;
      for (int64_t i = first; i < end; ++i) {
        y[i] = function(float{x[i]}, float{z == nullptr ? x[i] : z[i]});
      }
    }
  }
}

// Sets y[i] = function(x[i], z[i]) for i in [0, count). If `z` is null, the
// second argument is x[i]. `y` may be `x` or `z`. `operation` names the kernel
// in error messages.
template <typename From, typename To, typename Function>
void Map(Stream& stream, const char* operation, int64_t count, const From* x,
         const From* z, To* y, const Function& function) {
  const bool aligned = IsAligned<Mapped<From>>(x) &&
                       IsAligned<Mapped<From>>(z) && IsAligned<Mapped<To>>(y);
  const int64_t blocks = std::min(
      CeilDivide(count, kMapped * int64_t{kBlockThreads}), kMaximumBlocks);
  Launch(stream, operation, blocks, kBlockThreads,
         &MapKernel<From, To, Function>, count, aligned, x, z, y, function);
}

}  // namespace tributary::cuda

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_MAP_H_
