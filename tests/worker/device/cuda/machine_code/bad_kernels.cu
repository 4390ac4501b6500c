// Kernels with the defects that machine_code_test looks for.
#include <cuda_runtime.h>

namespace tributary::cuda {

// Holds 64 numbers per thread, for which 32 registers do not suffice.
__global__ void __launch_bounds__(1024, 2)
    SpillingKernel(const float* from, float* to) {
  float values[64];
#pragma unroll
  for (int n = 0; n < 64; ++n) values[n] = from[n * 1024 + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int n = 0; n < 64; ++n) {
    to[n * 1024 + threadIdx.x] = values[n] * values[63 - n];
  }
}

// Indexes an array of the thread with numbers known only at run time.
__global__ void LocalArrayKernel(const float* from, int place, float* to) {
  float values[64];
  for (int n = 0; n < 64; ++n) values[n] = from[n];
  for (int n = 0; n < place; ++n) values[(n * place) % 64] += values[n % 64];
  to[threadIdx.x] = values[threadIdx.x % 64];
}

// Loads from an address that may be in shared or in global memory.
__global__ void GenericLoadKernel(const float* from, bool shared, float* to) {
  __shared__ float copy[32];
  copy[threadIdx.x] = from[threadIdx.x];
  __syncthreads();
  const float* const source = shared ? copy : from;
  to[threadIdx.x] = source[31 - threadIdx.x];
}

}  // namespace tributary::cuda
