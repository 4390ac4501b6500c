// Sums and the like over the threads of a warp or block, in an order that
// depends on the number of threads alone. For .cu files alone.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_REDUCTION_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_REDUCTION_H_

#include <cuda_runtime.h>

#include "common/cuda/launch.h"

namespace tributary::cuda {

inline constexpr unsigned kAllLanes = 0xffffffffu;

// The sum over groups of `lanes` neighbouring lanes, a power of two up to
// kWarp; each lane of a group gets the same bits. The whole warp must call.
__device__ inline float SumOfLanes(float value, int lanes = kWarp) {
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, distance);
  }
  return value;
}

// The same for the maximum, which is not NaN unless all are.
__device__ inline float MaximumOfLanes(float value, int lanes = kWarp) {
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  return value;
}

__device__ inline float ShuffleDown(float value, int distance) {
  return __shfl_down_sync(kAllLanes, value, distance);
}
__device__ inline double ShuffleDown(double value, int distance) {
  return __shfl_down_sync(kAllLanes, value, distance);
}

// combine(..., value of each thread of the block); every thread gets the same
// bits. T has an overload of ShuffleDown. `shared` is shared memory for kWarp
// values, which is free again on return; blockDim.x is a multiple of kWarp, the
// only dimension, and all threads must call.
template <typename T, typename Combine>
__device__ T BlockReduce(T value, const Combine& combine, T* shared) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    // Lanes beyond the end give what no lane uses: lane 0 gets the result.
    value = combine(value, ShuffleDown(value, distance));
  }
  if (threadIdx.x % kWarp == 0) shared[threadIdx.x / kWarp] = value;
  __syncthreads();
  T total = shared[0];
  for (int warp = 1; warp < static_cast<int>(blockDim.x) / kWarp; ++warp) {
    total = combine(total, shared[warp]);
  }
  __syncthreads();
  return total;
}

}  // namespace tributary::cuda

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_REDUCTION_H_
