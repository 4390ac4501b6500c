#include "common/sparse/slab_memory.h"

#include <sys/mman.h>

#include <algorithm>

namespace tributary {
namespace {

constexpr int64_t kHugePage = int64_t{2} << 20;
constexpr int64_t kLargestRegion = int64_t{256} << 20;

}  // namespace

SlabMemory::SlabMemory(int64_t slab_bytes, int64_t limit_bytes)
    : slab_bytes_(slab_bytes), limit_bytes_(limit_bytes) {}

SlabMemory::~SlabMemory() {
  for (const Region& region : regions_) munmap(region.memory, region.bytes);
}

char* SlabMemory::Take() {
  if (regions_.empty() || used_ + slab_bytes_ > regions_.back().bytes) {
    // An eighth of what exists, so that little is left unused.
    int64_t bytes = std::clamp(bytes_ / 8, kHugePage, kLargestRegion);
    bytes = std::max(bytes, slab_bytes_);
    bytes = (bytes + kHugePage - 1) / kHugePage * kHugePage;
    if (limit_bytes_ > 0) bytes = std::min(bytes, limit_bytes_ - bytes_);
    if (bytes < slab_bytes_) return nullptr;
    void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    madvise(memory, bytes, MADV_HUGEPAGE);
    regions_.push_back({static_cast<char*>(memory), bytes});
    bytes_ += bytes;
    used_ = 0;
  }
  char* const slab = regions_.back().memory + used_;
  used_ += slab_bytes_;
  return slab;
}

}  // namespace tributary
