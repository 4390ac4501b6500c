#include "common/update/pinned_arenas.h"

#include <algorithm>
#include <utility>

namespace tributary {
namespace {

constexpr int64_t kLeastArenas = 2;

}  // namespace

std::shared_ptr<const void> PinLater(Buffer memory, size_t bytes,
                                     const PinMemory& pin, Executor* pool) {
  if (pin == nullptr) return memory;
  // Only the task accesses the buffer before the last handle is released.
  const auto handle = std::make_shared<Buffer>(std::move(memory));
  pool->Run([handle, bytes, pin] {
    *handle = PinnedBuffer(std::move(*handle), bytes, pin);
  });
  return handle;
}

PinnedArenas::PinnedArenas(Buffer memory, int64_t bytes, int64_t arena_bytes,
                           PinMemory pin, Executor* pool)
    : memory_(std::move(memory)),
      arena_bytes_(arena_bytes),
      pin_(std::move(pin)),
      pool_(pool),
      arenas_(bytes / arena_bytes),
      allowed_(std::max(kLeastArenas, kMaximumBytes / arena_bytes)) {}

std::shared_ptr<const void> PinnedArenas::Use(int64_t begin, int64_t bytes) {
  const auto arena = static_cast<size_t>(begin / arena_bytes_);
  if (pin_ == nullptr || arena >= arenas_.size() ||
      begin % arena_bytes_ + bytes > arena_bytes_) {
    return memory_;
  }
  if (arenas_[arena] == nullptr) {
    if (allowed_ == 0) return memory_;
    --allowed_;
    const int64_t elements =
        static_cast<int64_t>(arena) * arena_bytes_ / int64_t{sizeof(float)};
    arenas_[arena] = PinLater(Buffer(memory_, memory_.get() + elements),
                              static_cast<size_t>(arena_bytes_), pin_, pool_);
  }
  return arenas_[arena];
}

}  // namespace tributary
