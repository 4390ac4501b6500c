#include "common/update/update_memory.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "common/base/status_macros.h"

namespace tributary {
namespace {

// Returns null if ordinary memory is as fast.
std::function<Buffer()> SourceOf(const ChunkPasses& passes) {
  if (passes.host_buffer != nullptr) return passes.host_buffer;
  return [] { return nullptr; };
}

}  // namespace

UpdateMemory::UpdateMemory(const ArenaLayout* layout, const ChunkGroup* chunks,
                           const ChunkPasses& passes, Executor* pool)
    : layout_(*layout),
      chunks_(*chunks),
      pin_(passes.pin),
      device_share_(passes.share),
      pool_(pool),
      buffers_(std::min(layout->chunk_elements(), layout->arena_elements()),
               SourceOf(passes)),
      halves_((buffers_.elements() + 1) / 2) {}

int64_t UpdateMemory::ArenaBytes() const {
  return RoundUpToPage(layout_.arena_elements() * int64_t{sizeof(float)});
}

absl::StatusOr<SharedMemoryOffer> UpdateMemory::ShareWeights() {
  absl::MutexLock lock(&share_mu_);
  if (memory_ != nullptr) return memory_->offer();
  TRIBUTARY_ASSIGN_OR_RETURN(memory_, SharedMemory::Create(2 * ArenaBytes()));
  auto* const arenas = reinterpret_cast<float*>(memory_->data());
  const std::shared_ptr<const void> pinned =
      PinLater(Buffer(memory_, arenas), static_cast<size_t>(memory_->bytes()),
               pin_, pool_);
  for (const auto& chunk : chunks_.chunks()) {
    float* const even = arenas + layout_.ChunkBegin(chunk->number());
    chunk->Share(Buffer(pinned, even),
                 Buffer(pinned, even + ArenaBytes() / int64_t{sizeof(float)}));
  }
  return memory_->offer();
}

std::unique_ptr<PinnedArenas> UpdateMemory::ArenasIn(Buffer memory,
                                                     int64_t bytes) const {
  return std::make_unique<PinnedArenas>(std::move(memory), bytes, ArenaBytes(),
                                        pin_, pool_);
}

}  // namespace tributary
