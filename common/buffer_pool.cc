#include "common/buffer_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <new>

namespace tributary {
namespace {

constexpr size_t kCacheLine = 64;
constexpr size_t kHugePage = size_t{2} << 20;

float* AllocateFloats(int64_t elements) {
  size_t bytes = static_cast<size_t>(elements) * sizeof(float);
  const size_t alignment = bytes >= kHugePage ? kHugePage : kCacheLine;
  bytes = std::max(alignment, (bytes + alignment - 1) / alignment * alignment);
  void* memory = std::aligned_alloc(alignment, bytes);
  if (memory == nullptr) throw std::bad_alloc();
  if (alignment == kHugePage) madvise(memory, bytes, MADV_HUGEPAGE);
  return static_cast<float*>(memory);
}

}  // namespace

// Outlives the pool as long as a buffer is out.
struct BufferPool::FreeList {
  ~FreeList() {
    for (float* memory : free) std::free(memory);
  }

  absl::Mutex mu;
  std::vector<float*> free ABSL_GUARDED_BY(mu);
};

BufferPool::BufferPool(int64_t elements)
    : elements_(elements), free_(std::make_shared<FreeList>()) {}

Buffer BufferPool::Take() {
  float* memory = nullptr;
  {
    absl::MutexLock lock(&free_->mu);
    if (!free_->free.empty()) {
      memory = free_->free.back();
      free_->free.pop_back();
    }
  }
  if (memory == nullptr) memory = AllocateFloats(elements_);
  return Buffer(memory, [list = free_](float* returned) {
    absl::MutexLock lock(&list->mu);
    list->free.push_back(returned);
  });
}

}  // namespace tributary
