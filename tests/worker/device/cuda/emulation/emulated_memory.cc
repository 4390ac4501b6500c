#include "tests/worker/device/cuda/emulation/emulated_memory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "tests/worker/device/cuda/emulation/emulated_devices.h"

namespace emulated_gpu {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kAlignment = 256;
// Addresses for protected memory.
constexpr size_t kRegion = size_t{64} << 30;

class Memory {
 public:
  void Protect() {
    absl::MutexLock lock(&mu_);
    if (protect_) return;
    protect_ = true;
    void* const region =
        mmap(nullptr, kRegion, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (region != MAP_FAILED) region_ = static_cast<char*>(region);
  }

  void* Allocate(size_t bytes) {
    absl::MutexLock lock(&mu_);
    if (bytes > limit_ - std::min(limit_, used_)) return nullptr;
    void* const memory = protect_ ? TakeProtected(bytes) : TakeHeap(bytes);
    if (memory == nullptr) return nullptr;
    if (protect_) SetAccess(PROT_READ | PROT_WRITE);
    std::memset(memory, 0xff, bytes);  // NaN.
    if (protect_ && running_ == 0) SetAccess(PROT_NONE);
    blocks_[static_cast<char*>(memory)] = bytes;
    used_ += bytes;
    return memory;
  }

  // Returns false if the memory is not this GPU's.
  bool Free(void* memory) {
    absl::MutexLock lock(&mu_);
    const auto block = blocks_.find(static_cast<char*>(memory));
    if (block == blocks_.end() || mapped_.count(memory) > 0) return false;
    Unshare(memory, block->second);
    if (block->first >= region_ && block->first < region_ + kRegion) {
      // Its addresses are not used again.
      madvise(memory, RoundUp(block->second, kPage), MADV_DONTNEED);
    } else {
      std::free(memory);
    }
    used_ -= block->second;
    blocks_.erase(block);
    return true;
  }

  // Returns the file descriptor of the block that begins here, and sets its
  // size. Returns -1 if there is none.
  int Share(void* memory, size_t* bytes) {
    absl::MutexLock lock(&mu_);
    const auto block = blocks_.find(static_cast<char*>(memory));
    if (block == blocks_.end() || mapped_.count(memory) > 0) return -1;
    *bytes = block->second;
    const auto known = shared_.find(memory);
    if (known != shared_.end()) return known->second;
    if (*bytes % kPage != 0) std::abort();
    const int file = memfd_create("emulated_gpu", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, static_cast<off_t>(*bytes)) != 0) {
      std::abort();
    }
    if (InRegion(memory)) SetAccess(PROT_READ | PROT_WRITE);
    for (size_t done = 0; done < *bytes;) {
      const ssize_t written = pwrite(file, block->first + done, *bytes - done,
                                     static_cast<off_t>(done));
      if (written <= 0) std::abort();
      done += static_cast<size_t>(written);
    }
    MapFile(memory, *bytes, file);
    shared_[memory] = file;
    return file;
  }

  // Maps the file that `block` names.
  void* Map(const SharedBlock& block) {
    absl::MutexLock lock(&mu_);
    for (auto& [memory, mapping] : mapped_) {
      if (mapping.process != block.process ||
          mapping.descriptor != block.descriptor) {
        continue;
      }
      ++mapping.count;
      return memory;
    }
    const std::string path = "/proc/" + std::to_string(block.process) + "/fd/" +
                             std::to_string(block.descriptor);
    const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
    struct stat status;
    if (file < 0) return nullptr;
    // The owner may have freed the memory, and the number be another file's.
    if (fstat(file, &status) != 0 ||
        status.st_size != static_cast<off_t>(block.bytes)) {
      close(file);
      return nullptr;
    }
    // Tells the owner that the memory is mapped, as long as this process lives.
    flock(file, LOCK_SH);
    void* const memory = mmap(nullptr, block.bytes, PROT_NONE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    blocks_[static_cast<char*>(memory)] = block.bytes;
    mapped_[memory] = {block.process, block.descriptor, block.device,
                       file,          block.bytes,      1};
    MapFile(memory, block.bytes, file);
    return memory;
  }

  bool Unmap(void* memory) {
    absl::MutexLock lock(&mu_);
    const auto mapping = mapped_.find(memory);
    if (mapping == mapped_.end()) return false;
    if (--mapping->second.count > 0) return true;
    const auto block = blocks_.find(static_cast<char*>(memory));
    // Its addresses are not used again: an access raises SIGSEGV.
    mmap(memory, block->second, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    close(mapping->second.file);
    blocks_.erase(block);
    mapped_.erase(mapping);
    return true;
  }

  // Returns the GPU that owns the memory, or -1 if the memory is not mapped.
  int OwnerOf(const void* memory) {
    const char* const at = static_cast<const char*>(memory);
    absl::MutexLock lock(&mu_);
    for (const auto& [begin, mapping] : mapped_) {
      const char* const first = static_cast<const char*>(begin);
      if (at >= first && at < first + mapping.bytes) return mapping.device;
    }
    return -1;
  }

  bool Contains(const void* memory) {
    const char* const at = static_cast<const char*>(memory);
    absl::MutexLock lock(&mu_);
    auto block = blocks_.upper_bound(const_cast<char*>(at));
    if (block == blocks_.begin()) return false;
    --block;
    return at < block->first + std::max<size_t>(block->second, 1);
  }

  void Open() {
    absl::MutexLock lock(&mu_);
    if (running_++ == 0) SetAccess(PROT_READ | PROT_WRITE);
  }
  void Close() {
    absl::MutexLock lock(&mu_);
    if (--running_ == 0) SetAccess(PROT_NONE);
  }

  void SetLimit(size_t bytes) {
    absl::MutexLock lock(&mu_);
    limit_ = bytes;
  }
  size_t limit() {
    absl::MutexLock lock(&mu_);
    return limit_;
  }
  size_t free() {
    absl::MutexLock lock(&mu_);
    return limit_ - std::min(limit_, used_);
  }

 private:
  struct Mapping {
    int process = 0, descriptor = 0, device = 0;  // Of the owner.
    int file = -1;
    size_t bytes = 0;
    int count = 0;
  };

  bool InRegion(const void* memory) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const char* const at = static_cast<const char*>(memory);
    return region_ != nullptr && at >= region_ && at < region_ + kRegion;
  }

  void MapFile(void* memory, size_t bytes, int file)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (mmap(memory, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
             file, 0) == MAP_FAILED) {
      std::abort();
    }
    if (protect_ && running_ == 0) SetAccess(PROT_NONE);
  }

  // Makes shared memory private again, with unspecified contents.
  void Unshare(void* memory, size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const auto shared = shared_.find(memory);
    if (shared == shared_.end()) return;
    const int file = shared->second;
    const std::string path = "/proc/self/fd/" + std::to_string(file);
    const int again = open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (flock(again, LOCK_EX | LOCK_NB) != 0) {
      std::fprintf(stderr,
                   "emulated GPU: memory was freed while another process had "
                   "it mapped\n");
    }
    const std::string nan(bytes, '\xff');
    if (pwrite(again, nan.data(), bytes, 0) < 0) std::abort();
    close(again);
    mmap(memory, bytes, InRegion(memory) ? PROT_NONE : PROT_READ | PROT_WRITE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (InRegion(memory) && running_ > 0) SetAccess(PROT_READ | PROT_WRITE);
    close(file);
    shared_.erase(shared);
  }

  static size_t RoundUp(size_t bytes, size_t unit) {
    return (std::max<size_t>(bytes, 1) + unit - 1) / unit * unit;
  }

  static void* TakeHeap(size_t bytes) {
    // Whole pages, because ShareMemory maps them again.
    const size_t unit = bytes % kPage == 0 ? kPage : kAlignment;
    return std::aligned_alloc(unit, RoundUp(bytes, unit));
  }

  void* TakeProtected(size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const size_t size = RoundUp(bytes, kPage);
    if (region_ == nullptr || size > kRegion - taken_) return nullptr;
    char* const memory = region_ + taken_;
    taken_ += size;
    return memory;
  }

  // Of all memory ever taken: one call of the system, and one for each mapping.
  void SetAccess(int access) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (!protect_) return;
    if (taken_ > 0) mprotect(region_, taken_, access);
    for (const auto& [memory, mapping] : mapped_) {
      mprotect(memory, mapping.bytes, access);
    }
  }

  absl::Mutex mu_;
  bool protect_ ABSL_GUARDED_BY(mu_) = false;
  int running_ ABSL_GUARDED_BY(mu_) = 0;
  size_t limit_ ABSL_GUARDED_BY(mu_) = size_t{1} << 40;
  size_t used_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<char*, size_t> blocks_ ABSL_GUARDED_BY(mu_);  // Their bytes.
  std::map<void*, int> shared_ ABSL_GUARDED_BY(mu_);     // Their files.
  std::map<void*, Mapping> mapped_ ABSL_GUARDED_BY(mu_);
  // Of protected memory; null: there is none.
  char* region_ ABSL_GUARDED_BY(mu_) = nullptr;
  size_t taken_ ABSL_GUARDED_BY(mu_) = 0;
};

Memory& MemoryOf(int device) {
  static auto* const memories = new Memory[kDevices];
  return memories[device];
}

struct PinnedMemory {
  absl::Mutex mu;
  std::map<const char*, size_t> ranges ABSL_GUARDED_BY(mu);  // By their begin.
  int64_t count ABSL_GUARDED_BY(mu) = 0;
  int64_t bytes ABSL_GUARDED_BY(mu) = 0;
  int64_t most_bytes ABSL_GUARDED_BY(mu) = 0;
};

PinnedMemory& Pinned() {
  static auto* const pinned = new PinnedMemory;
  return *pinned;
}

}  // namespace

void ProtectMemory() {
  for (int device = 0; device < kDevices; ++device) MemoryOf(device).Protect();
}
void* AllocateMemory(int device, size_t bytes) {
  return MemoryOf(device).Allocate(bytes);
}
void ReleaseMemory(void* memory) {
  if (memory == nullptr) return;
  for (int device = 0; device < kDevices; ++device) {
    if (MemoryOf(device).Free(memory)) return;
  }
  std::abort();
}
int DeviceOf(const void* memory) {
  for (int device = 0; device < kDevices; ++device) {
    if (MemoryOf(device).Contains(memory)) return device;
  }
  return -1;
}
int HomeOf(const void* memory) {
  const int device = DeviceOf(memory);
  const int owner = device < 0 ? -1 : MemoryOf(device).OwnerOf(memory);
  return owner >= 0 ? owner : device;
}
bool ShareMemory(void* memory, SharedBlock* block) {
  block->process = getpid();
  block->device = DeviceOf(memory);
  if (block->device < 0) return false;
  block->descriptor = MemoryOf(block->device).Share(memory, &block->bytes);
  return block->descriptor >= 0;
}
void* MapMemory(int device, const SharedBlock& block) {
  return MemoryOf(device).Map(block);
}
bool UnmapMemory(void* memory) {
  const int device = DeviceOf(memory);
  return device >= 0 && MemoryOf(device).Unmap(memory);
}

namespace {
std::atomic<bool> peer_access{true};
}  // namespace
void SetPeerAccess(bool possible) { peer_access = possible; }
bool HasPeerAccess() { return peer_access; }

namespace {
std::atomic<bool> own_mapping{false};
}  // namespace
void SetOwnMapping(bool possible) { own_mapping = possible; }
bool HasOwnMapping() { return own_mapping; }

void SetMemoryBytes(size_t bytes) {
  for (int device = 0; device < kDevices; ++device) {
    MemoryOf(device).SetLimit(bytes);
  }
}
size_t MemoryBytes() { return MemoryOf(0).limit(); }
size_t FreeMemoryBytes(int device) { return MemoryOf(device).free(); }

Running::Running() : first_(0), end_(kDevices) {
  for (int device = first_; device < end_; ++device) MemoryOf(device).Open();
}
Running::Running(int device) : first_(device), end_(device + 1) {
  MemoryOf(device).Open();
}
Running::~Running() {
  for (int device = first_; device < end_; ++device) MemoryOf(device).Close();
}

void Pin(const void* memory, size_t bytes) {
  absl::MutexLock lock(&Pinned().mu);
  Pinned().ranges[static_cast<const char*>(memory)] = bytes;
  ++Pinned().count;
  Pinned().bytes += static_cast<int64_t>(bytes);
  Pinned().most_bytes = std::max(Pinned().most_bytes, Pinned().bytes);
}

bool Unpin(const void* memory) {
  absl::MutexLock lock(&Pinned().mu);
  const auto range = Pinned().ranges.find(static_cast<const char*>(memory));
  if (range == Pinned().ranges.end()) return false;
  Pinned().bytes -= static_cast<int64_t>(range->second);
  Pinned().ranges.erase(range);
  return true;
}

bool IsPinned(const void* memory) {
  const char* const at = static_cast<const char*>(memory);
  absl::MutexLock lock(&Pinned().mu);
  auto range = Pinned().ranges.upper_bound(at);
  if (range == Pinned().ranges.begin()) return false;
  --range;
  return at < range->first + range->second;
}

bool IsWritable(const void* memory, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::istringstream fields(line);
    uintptr_t first = 0, end = 0;
    char dash = 0;
    std::string access;
    fields >> std::hex >> first >> dash >> end >> access;
    if (first < begin + bytes && begin < end && access[1] != 'w') return false;
  }
  return true;
}

int64_t PinnedRanges() {
  absl::MutexLock lock(&Pinned().mu);
  return Pinned().count;
}

int64_t PinnedBytes() {
  absl::MutexLock lock(&Pinned().mu);
  return Pinned().bytes;
}

int64_t MostPinnedBytes() {
  absl::MutexLock lock(&Pinned().mu);
  return std::exchange(Pinned().most_bytes, Pinned().bytes);
}

}  // namespace emulated_gpu
