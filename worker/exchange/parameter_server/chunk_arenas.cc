#include "worker/exchange/parameter_server/chunk_arenas.h"

#include "common/os/shared_memory.h"

namespace tributary {

Buffer ChunkArenas::MakeArena() const {
  const auto pages = std::make_shared<PrivatePages>(
      layout_->arena_elements() * int64_t{sizeof(float)},
      PrivatePages::PageSize::kSmall);
  return Buffer(pages, reinterpret_cast<float*>(pages->data()));
}

Buffer ChunkArenas::ChunkOf(const Buffer& arena, int chunk) const {
  {
    absl::MutexLock lock(&count_->mu);
    ++count_->references;
  }
  float* const data = arena.get() + layout_->ChunkBegin(chunk);
  const int64_t bytes = layout_->ChunkSize(chunk) * int64_t{sizeof(float)};
  return Buffer(arena.get(), [arena, data, bytes, count = count_](float*) {
    DropPages(reinterpret_cast<char*>(data), bytes);
    absl::MutexLock lock(&count->mu);
    --count->references;
  });
}

bool ChunkArenas::AwaitReleased(int64_t most, absl::Duration patience) const {
  absl::MutexLock lock(&count_->mu);
  const auto released = [&]() ABSL_SHARED_LOCKS_REQUIRED(count_->mu) {
    return count_->references <= most;
  };
  return count_->mu.AwaitWithTimeout(absl::Condition(&released), patience);
}

}  // namespace tributary
