// Runs kernels on the CPU. Each thread of a block is a fiber that runs until it
// waits for other threads. Detects common mistakes of kernels:
//
// - Barriers that not all threads reach, and shuffles with lanes that have
//   ended: both end the process.
// - Missing barriers: tests can change the order of threads and blocks, which
//   changes results that depend on the order. In builds with ThreadSanitizer,
//   threads of a block synchronize only at barriers, so that each missing
//   barrier is reported as a data race in any order.
// - Reads of shared memory before it is written: it is filled with NaN at the
//   start of each block.
// - Accesses beyond device memory, in builds with AddressSanitizer, because
//   device memory is allocated on the heap (unless ProtectMemory was called).

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

// The variables of CUDA with these names, for the thread that is running.
extern dim3 threadIdx, blockIdx, blockDim, gridDim;

// The order in which the blocks of a grid run, and the threads of a block
// between barriers. kRandom depends on the seed, and also lets some warps run
// ahead.
enum class ThreadOrder { kAscending, kDescending, kRandom };
void SetThreadOrder(ThreadOrder order,
                    uint32_t seed = 1);  // Applies to later launches.

// Runs a kernel: calls body() once for each thread of each block. The grid must
// have one dimension, and the block at most two. Launches by several host
// threads run one after another.
void Run(dim3 grid, dim3 block, const std::function<void()>& body);

// The functions below are called by kernels. WaitForBlock is the barrier
// __syncthreads: it waits for all threads of the block that have not ended.
void WaitForBlock();

// Fills a variable in shared memory with NaN at the first call for this
// variable by a thread of the running block.
void BeginShared(void* variable, size_t bytes);

// Returns the lane of the running thread: its number in its warp.
int Lane();

// Implements shuffles: passes `bytes` bytes, up to 8, at `value` to the other
// lanes, waits until all lanes of the warp have called this function, and
// overwrites `value` with the bytes of lane `source`. `mask` must include all
// lanes.
void ExchangeBytes(unsigned mask, void* value, size_t bytes, int source);

template <typename T>
T Exchange(unsigned mask, T value, int source) {
  ExchangeBytes(mask, &value, sizeof(value), source);
  return value;
}

// Passes `bytes` bytes, up to 32, at `value` to the other lanes, waits until
// all lanes of the warp have called this function, and writes the bytes of lane
// n to `all` + n * `bytes`.
void GatherBytes(const void* value, size_t bytes, void* all);

// Implement asynchronous copies. BeginCopy registers a copy of the running
// thread, which WaitForCopies performs: the latest moment that CUDA allows.
// Until then the bytes at `to` are NaN, as if they were overwritten at once. If
// `from` is null, zeros are written. A thread must call WaitForCopies before it
// ends.
void BeginCopy(void* to, const void* from, size_t bytes);
void WaitForCopies();

// Ends the process with a message about the thread that is running.
[[noreturn]] void Fail(const char* what);

}  // namespace emulated_gpu

#endif  // TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_EMULATED_GPU_H_
