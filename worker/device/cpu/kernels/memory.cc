#include "worker/device/cpu/kernels/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"

namespace tributary::cpu {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kHugePage = size_t{2} << 20;

// Stored just before the returned memory, in pages of the same mapping, because
// the handle's deleter receives only the address.
struct MappingHeader {
  void* base;
  size_t length;
};

void FreeMapping(void* memory) {
  MappingHeader header;
  std::memcpy(&header, static_cast<char*>(memory) - sizeof(header),
              sizeof(header));
  munmap(header.base, header.length);
}

absl::Status NoMemory(size_t bytes) {
  return absl::ResourceExhaustedError(
      absl::StrCat("out of host memory: cannot allocate ", bytes, " bytes"));
}

absl::StatusOr<Device::Memory> Map(size_t bytes) {
  // Room for alignment, with at least one preceding page for the header.
  if (bytes > std::numeric_limits<size_t>::max() - 3 * kHugePage) {
    return NoMemory(bytes);
  }
  const size_t rounded = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  const size_t length = rounded + kHugePage;
  void* base = mmap(nullptr, length, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return NoMemory(bytes);
  const auto address = reinterpret_cast<uintptr_t>(base);
  char* memory = static_cast<char*>(base) + (kHugePage - address % kHugePage);
  // A hint: if it is rejected, the pages are small.
  madvise(memory, rounded, MADV_HUGEPAGE);
  const MappingHeader header = {base, length};
  std::memcpy(memory - sizeof(header), &header, sizeof(header));
  return Device::Memory(memory, &FreeMapping);
}

}  // namespace

absl::StatusOr<Device::Memory> AllocateHostMemory(size_t bytes) {
  if (bytes >= kHugePage) return Map(bytes);
  const size_t rounded =
      std::max(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  void* memory = std::aligned_alloc(kAlignment, rounded);
  if (memory == nullptr) return NoMemory(bytes);
  std::memset(memory, 0, rounded);
  return Device::Memory(memory, &std::free);
}

}  // namespace tributary::cpu
