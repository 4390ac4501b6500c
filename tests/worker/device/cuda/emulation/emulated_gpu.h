// Runs kernels on the CPU, thread by thread: each thread of a block is a fiber
// that runs until it waits for others. It checks what a kernel's author gets
// wrong without noticing: barriers that not all threads reach, shuffles with
// lanes that have left (both end the process), and, since the order of threads
// can be turned round, results that depend on it for want of a barrier. Shared
// memory keeps its content from block to block, and device memory is the
// heap's, so AddressSanitizer sees what reaches beyond it.
#ifndef TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_EMULATED_GPU_H_
#define TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_EMULATED_GPU_H_

#include <cstring>
#include <functional>

namespace emulated_gpu {

struct dim3 {
  dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
  unsigned x, y, z;
};

// Of the thread that runs now.
extern dim3 threadIdx, blockIdx, blockDim, gridDim;

// Between barriers, the threads of a block run in this order.
enum class ThreadOrder { kAscending, kDescending };
void SetThreadOrder(ThreadOrder order);  // Of later launches.

// Calls body() as each thread of each block. Launches of several host threads
// take turns.
void Run(dim3 grid, dim3 block, const std::function<void()>& body);

// What kernels call: wait for the threads of the block that have not left.
void WaitForBlock();

// Number in its warp of the thread that runs now.
int Lane();

// Gives `bytes` from `value` to the other lanes, waits for them to do the same,
// and takes `source`'s. The whole warp must call.
void ExchangeBytes(unsigned mask, void* value, size_t bytes, int source);

template <typename T>
T Exchange(unsigned mask, T value, int source) {
  ExchangeBytes(mask, &value, sizeof(value), source);
  return value;
}

// Gives `bytes`, up to 32, from `value` to the other lanes, waits for them to
// do the same, and stores what lane n gave at `all` + n `bytes`. The whole warp
// must call.
void GatherBytes(const void* value, size_t bytes, void* all);

// Copies of a thread that run in WaitForCopies, the latest moment that CUDA
// allows. Until then the bytes at `to` are NaN, as if they were overwritten at
// once. Null `from` means zeros. A thread must wait before it leaves.
void BeginCopy(void* to, const void* from, size_t bytes);
void WaitForCopies();

// Ends the process with a message about the thread that runs now.
[[noreturn]] void Fail(const char* what);

}  // namespace emulated_gpu

#endif  // TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_EMULATED_GPU_H_
