// Reductions over the threads of a warp or block, in an order that depends only
// on the number of threads. For .cu files only.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_REDUCTION_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_REDUCTION_H_

#include <cuda_runtime.h>

#include "common/cuda/launch.h"

namespace tributary::cuda {

inline constexpr unsigned kAllLanes = 0xffffffffu;

// Returns the sum of `value` over the lane's group of `lanes` adjacent lanes.
// `lanes` is a power of two up to kWarp. All lanes of a group receive the same
// bits. All lanes of the warp must call this function.
__device__ inline float SumOfLanes(float value, int lanes = kWarp) {
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, distance);
  }
  return value;
}

// Returns the maximum of `value` over the lane's group of `lanes` adjacent
// lanes; see SumOfLanes. Ignores NaNs: the result is NaN only if all values are
// NaN.
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

// Combines the values of all threads of the block with `combine` and returns
// the result; every thread receives the same bits. T needs an overload of
// ShuffleDown. `shared` is shared memory for kWarp values, which may be reused
// on return. blockDim.x must be a multiple of kWarp and the only dimension, and
// all threads of the block must call this function.
template <typename T, typename Combine>
__device__ T BlockReduce(T value, const Combine& combine, T* shared) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    // Values from lanes beyond the end reach unused lanes only: lane 0 has the
    // result.
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
