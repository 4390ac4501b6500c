// Stands in for CUB's header of the same name.
#ifndef TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_DEVICE_RADIX_SORT_H_
#define TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_DEVICE_RADIX_SORT_H_

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "cuda_runtime.h"

namespace cub {

struct DeviceRadixSort {
  // By bits [begin_bit, end_bit) of the keys; stable.
  template <typename Key, typename Value>
  static cudaError_t SortPairs(void* work, size_t& work_bytes,
                               const Key* keys_in, Key* keys_out,
                               const Value* values_in, Value* values_out,
                               int count, int begin_bit, int end_bit,
                               cudaStream_t stream) {
    // Also where it only tells how much memory it needs: like the library,
    // which looks for the last error behind each step.
    const cudaError_t error = emulated_gpu::CheckLaunch(stream);
    if (error != cudaSuccess) return error;
    if (work == nullptr) {
      work_bytes = 256;
      return cudaSuccess;
    }
    emulated_gpu::Enqueue(stream, [=] {
      const emulated_gpu::Running running(emulated_gpu::DeviceOf(stream));
      const Key mask = static_cast<Key>(
          ((uint64_t{1} << (end_bit - begin_bit)) - 1) << begin_bit);
      std::vector<int> order(count);
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
        return (keys_in[a] & mask) < (keys_in[b] & mask);
      });
      for (int i = 0; i < count; ++i) {
        keys_out[i] = keys_in[order[i]];
        values_out[i] = values_in[order[i]];
      }
      return true;
    });
    return cudaSuccess;
  }
};

}  // namespace cub

#endif  // TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_DEVICE_RADIX_SORT_H_
