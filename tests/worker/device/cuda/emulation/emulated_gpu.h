// Runs kernels on the CPU, thread by thread: each thread of a block is a fiber
// that runs until it waits for others. Detects common mistakes of kernels:
//
// - Barriers that not all threads reach, and shuffles with lanes that have
//   left: both end the process.
// - Missing barriers: the order of threads and blocks can be changed, which
//   changes results that depend on it. In builds with ThreadSanitizer, threads
//   of a block synchronize only at barriers, so that each missing one is
//   reported as a data race, whatever the order. (Lane 0 makes the accesses of
//   wmma for its warp.)
// - Uses of shared memory before it is written: it is full of NaN at the
//   beginning of each block.
// - Accesses beyond device memory, in builds with AddressSanitizer, because
//   device memory is the heap's.
#ifndef TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_EMULATED_GPU_H_
#define TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_EMULATED_GPU_H_

#include <cstdint>
#include <cstring>
#include <functional>

namespace emulated_gpu {

struct dim3 {
  dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
  unsigned x, y, z;
};

// Of the thread that runs now.
extern dim3 threadIdx, blockIdx, blockDim, gridDim;

// The blocks of a grid, and between barriers the threads of a block, run in
// this order. kRandom, a function of the seed, also lets some warps run ahead.
enum class ThreadOrder { kAscending, kDescending, kRandom };
void SetThreadOrder(ThreadOrder order,
                    uint32_t seed = 1);  // Of later launches.

// Calls body() as each thread of each block. Launches of several host threads
// take turns.
void Run(dim3 grid, dim3 block, const std::function<void()>& body);

// What kernels call: wait for the threads of the block that have not left.
void WaitForBlock();

// Fills a variable in shared memory with NaN, at the block's first call for it.
void BeginShared(void* variable, size_t bytes);

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
