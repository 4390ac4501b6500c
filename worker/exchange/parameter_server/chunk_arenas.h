// Gradient arenas whose memory is freed chunk by chunk.
#ifndef TRIBUTARY_WORKER_EXCHANGE_PARAMETER_SERVER_CHUNK_ARENAS_H_
#define TRIBUTARY_WORKER_EXCHANGE_PARAMETER_SERVER_CHUNK_ARENAS_H_

#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/buffer_pool.h"
#include "common/parameters/arena_layout.h"

namespace tributary {

// Makes arenas, and counts the references to their chunks. References may
// outlive this object. Thread-safe.
class ChunkArenas {
 public:
  // `layout` must outlive this object and all references.
  explicit ChunkArenas(const ArenaLayout* layout) : layout_(layout) {}

  // Returns an arena, a buffer for the whole model, that takes no memory until
  // it is written.
  Buffer MakeArena() const;
  // See ChunkMemory.
  Buffer ChunkOf(const Buffer& arena, int chunk) const;
  bool AwaitReleased(int64_t most, absl::Duration patience) const;

 private:
  struct Count {
    absl::Mutex mu;
    int64_t references ABSL_GUARDED_BY(mu) = 0;
  };

  const ArenaLayout* const layout_;
  const std::shared_ptr<Count> count_ = std::make_shared<Count>();
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_PARAMETER_SERVER_CHUNK_ARENAS_H_
