#include "common/base/buffer_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>

namespace tributary {
namespace {

constexpr size_t kCacheLine = 64;
constexpr size_t kPage = 4096;
constexpr size_t kHugePage = size_t{2} << 20;

}  // namespace

int64_t BlockBytes(int64_t bytes) {
  const auto page = static_cast<int64_t>(kHugePage);
  return bytes < page ? bytes : (bytes + page - 1) / page * page;
}

Buffer AllocateBuffer(int64_t elements) {
  size_t bytes = static_cast<size_t>(elements) * sizeof(float);
  // Buffers that may be pinned share no page with others.
  const size_t alignment = bytes >= kHugePage ? kHugePage
                           : bytes >= kPage   ? kPage
                                              : kCacheLine;
  bytes = std::max(alignment, (bytes + alignment - 1) / alignment * alignment);
  void* memory = std::aligned_alloc(alignment, bytes);
  if (memory == nullptr) throw std::bad_alloc();
  if (alignment == kHugePage) madvise(memory, bytes, MADV_HUGEPAGE);
  return Buffer(static_cast<float*>(memory), std::free);
}

Buffer PinnedBuffer(Buffer buffer, size_t bytes, const PinMemory& pin) {
  if (pin == nullptr) return buffer;
  std::shared_ptr<void> pinned = pin(buffer.get(), bytes);
  if (pinned == nullptr) return buffer;
  float* const memory = buffer.get();
  return Buffer(memory, [buffer = std::move(buffer),
                         pinned = std::move(pinned)](float*) mutable {
    pinned.reset();
    buffer.reset();
  });
}

// Shared by the pool and its buffers, so that a buffer can outlive the pool.
struct BufferPool::FreeList {
  absl::Mutex mu;
  std::vector<Buffer> all ABSL_GUARDED_BY(mu);
  std::vector<float*> free ABSL_GUARDED_BY(mu);
};

BufferPool::BufferPool(int64_t elements)
    : BufferPool(elements, [] { return nullptr; }) {}

BufferPool::BufferPool(int64_t elements, std::function<Buffer()> source)
    : elements_(elements),
      source_(std::move(source)),
      free_(std::make_shared<FreeList>()) {}

Buffer BufferPool::Take() {
  float* memory = nullptr;
  {
    absl::MutexLock lock(&free_->mu);
    if (!free_->free.empty()) {
      memory = free_->free.back();
      free_->free.pop_back();
    }
  }
  if (memory == nullptr) {
    Buffer fresh = source_();
    if (fresh == nullptr) fresh = AllocateBuffer(elements_);
    memory = fresh.get();
    absl::MutexLock lock(&free_->mu);
    free_->all.push_back(std::move(fresh));
  }
  return Buffer(memory, [list = free_](float* returned) {
    absl::MutexLock lock(&list->mu);
    list->free.push_back(returned);
  });
}

}  // namespace tributary
