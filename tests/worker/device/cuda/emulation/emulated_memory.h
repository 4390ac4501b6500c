// Memory of the emulated GPUs, and pinned memory of the host.
#ifndef TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_EMULATED_MEMORY_H_
#define TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_EMULATED_MEMORY_H_

#include <cstddef>
#include <cstdint>

namespace emulated_gpu {

// Makes device memory that is allocated from now on accessible only while a
// Running object for its GPU exists; any other access raises SIGSEGV.
// AddressSanitizer does not detect accesses beyond such memory.
void ProtectMemory();

// Allocates memory of a GPU, filled with NaN. Returns null if the memory of the
// GPU does not suffice.
void* AllocateMemory(int device, size_t bytes);
// Frees memory of AllocateMemory; null has no effect. No queued work may use
// the memory. Ends the process if the memory does not belong to a GPU.
void ReleaseMemory(void* memory);
// Returns the number of the GPU to which the allocated memory at this address
// belongs, or -1 if it belongs to none.
int DeviceOf(const void* memory);
// Like DeviceOf, except that memory that MapMemory has mapped belongs to the
// GPU on which the other process has allocated it.
int HomeOf(const void* memory);
// Limits the memory that can be allocated on each GPU. The limit is 1 TiB
// initially.
void SetMemoryBytes(size_t bytes);

// Memory that processes share; see cudaIpcGetMemHandle.
struct SharedBlock {
  int process = 0;
  int descriptor = -1;  // In that process.
  int device = 0;
  size_t bytes = 0;
};
// Lets other processes map memory of AllocateMemory, whose size must be a
// multiple of 4096 bytes. `memory` must be its begin. Returns false if there is
// no such memory. From then on, a read of the memory after it was freed finds
// NaN, in any process.
bool ShareMemory(void* memory, SharedBlock* block);
// Maps the memory of a process, which may be this one, as memory of `device`. A
// second call for the same block returns the same address, and needs a second
// call of UnmapMemory. Returns null if the block does not exist.
void* MapMemory(int device, const SharedBlock& block);
// Returns false if the memory is not mapped.
bool UnmapMemory(void* memory);
// Sets whether GPUs can access each other's memory; initially they can.
void SetPeerAccess(bool possible);
bool HasPeerAccess();
// Sets whether cudaIpcOpenMemHandle also maps memory of its own process, so
// that a test can run a server and its workers in one process. Initially it
// does not, like CUDA.
void SetOwnMapping(bool possible);
bool HasOwnMapping();

// Return the limit of each GPU, and the bytes that can still be allocated on
// one GPU.
size_t MemoryBytes();
size_t FreeMemoryBytes(int device = 0);

// While an object of this class exists, an operation runs on a GPU, or a copy
// between GPUs and the host, so protected memory is accessible (see
// ProtectMemory). The constructor without an argument stands for all GPUs.
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

// Register and unregister pinned host memory. Unpin returns false if the memory
// is not pinned.
void Pin(const void* memory, size_t bytes);
bool Unpin(const void* memory);
// Returns true if the address is in pinned memory.
bool IsPinned(const void* memory);
// Returns true if this process may write to all pages of the range.
bool IsWritable(const void* memory, size_t bytes);
// Returns the number of ranges that have been pinned so far.
int64_t PinnedRanges();
// Return the number of bytes that are pinned now, and the maximum number since
// the last call of MostPinnedBytes.
int64_t PinnedBytes();
int64_t MostPinnedBytes();

}  // namespace emulated_gpu

#endif  // TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_EMULATED_MEMORY_H_
