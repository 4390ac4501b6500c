// Memory of the emulated GPUs, and pinned memory of the host.
#ifndef TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_EMULATED_MEMORY_H_
#define TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_EMULATED_MEMORY_H_

#include <cstddef>
#include <cstdint>

namespace emulated_gpu {

// Makes device memory that is mapped from now on accessible only to operations
// that run on its GPU; any other access raises SIGSEGV. AddressSanitizer does
// not see overruns of such memory.
void ProtectMemory();

// Returns null if the GPU's memory does not suffice.
void* AllocateMemory(int device, size_t bytes);
// Nothing queued may use the memory. Ends the process if it is not a GPU's.
void ReleaseMemory(void* memory);
// Returns the GPU of an address in allocated memory, or -1.
int DeviceOf(const void* memory);
// Limits what can be allocated on each GPU, from now on. 1 TiB at first.
void SetMemoryBytes(size_t bytes);
size_t MemoryBytes();
size_t FreeMemoryBytes(int device = 0);

// While one exists, operations run on a GPU, or copies between all of them and
// the host.
class Running {
 public:
  Running();
  explicit Running(int device);
  ~Running();
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  const int first_, end_;
};

// Host memory that copies use without the host.
void Pin(const void* memory, size_t bytes);
bool Unpin(const void* memory);  // False: it is not pinned.
bool IsPinned(const void* memory);
// Whether this process may write all of these pages.
bool IsWritable(const void* memory, size_t bytes);
// Counts all ranges ever pinned.
int64_t PinnedRanges();
// Bytes pinned at present by cudaHostRegister or cudaMallocHost, and the most
// since the last call.
int64_t PinnedBytes();
int64_t MostPinnedBytes();

}  // namespace emulated_gpu

#endif  // TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_EMULATED_MEMORY_H_
