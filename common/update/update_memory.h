// The memory of an UpdateEngine, and what of it workers share.
#ifndef TRIBUTARY_COMMON_UPDATE_UPDATE_MEMORY_H_
#define TRIBUTARY_COMMON_UPDATE_UPDATE_MEMORY_H_

#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/base/buffer_pool.h"
#include "common/base/executor.h"
#include "common/os/shared_memory.h"
#include "common/parameters/arena_layout.h"
#include "common/update/chunk_group.h"
#include "common/update/chunk_pass.h"
#include "common/update/device_share.h"
#include "common/update/pinned_arenas.h"

namespace tributary {

// The buffers from which an engine's weights and copies are made, and the
// memory in which workers on this host read weights and write gradients.
// Thread-safe.
class UpdateMemory {
 public:
  // All pointers must outlive this object.
  UpdateMemory(const ArenaLayout* layout, const ChunkGroup* chunks,
               const ChunkPasses& passes, Executor* pool);

  // Returns a buffer with room for any chunk.
  Buffer TakeBuffer() { return buffers_.Take(); }
  BufferPool* buffers() { return &buffers_; }
  // Returns buffers of half the size, for weights as 16 bits.
  BufferPool* halves() { return &halves_; }

  // Places the weights in memory that processes on this host may map. The
  // memory consists of two arenas, each with room for all weights of the model,
  // rounded up to whole pages. The chunks have the same offsets as in the
  // layout. Returns Unavailable if such memory cannot be created. Repeated
  // calls return the same memory. Requires UpdateEngine::useful_versions() == 2
  // and no compression.
  absl::StatusOr<SharedMemoryOffer> ShareWeights()
      ABSL_LOCKS_EXCLUDED(share_mu_);
  // Returns the arenas of a worker in `memory`, `bytes` bytes of host memory
  // from which contributions are read. Each arena has room for all gradients of
  // the model, rounded up to whole pages.
  std::unique_ptr<PinnedArenas> ArenasIn(Buffer memory, int64_t bytes) const;
  // Returns the memory of the device that updates the weights, if workers may
  // map it, and otherwise null.
  const std::shared_ptr<DeviceShare>& device_share() const {
    return device_share_;
  }

 private:
  int64_t ArenaBytes() const;

  const ArenaLayout& layout_;
  const ChunkGroup& chunks_;
  const PinMemory pin_;  // Null if memory need not be pinned.
  const std::shared_ptr<DeviceShare> device_share_;
  Executor* const pool_;
  BufferPool buffers_;
  BufferPool halves_;

  absl::Mutex share_mu_;
  std::shared_ptr<SharedMemory> memory_ ABSL_GUARDED_BY(share_mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_UPDATE_UPDATE_MEMORY_H_
