// The exchange of a worker that holds few chunks at a time.
#ifndef TRIBUTARY_WORKER_EXCHANGE_CHUNK_MEMORY_H_
#define TRIBUTARY_WORKER_EXCHANGE_CHUNK_MEMORY_H_

#include <cstdint>

#include "absl/time/time.h"
#include "common/base/buffer_pool.h"

namespace tributary {

// Fetches the weights of single chunks, and frees the memory of single chunks
// of gradient arenas. Thread-safe.
class ChunkMemory {
 public:
  virtual ~ChunkMemory() = default;

  // Requests a version of the chunk's weights, which arrives in the
  // WeightsSink (see WeightsSink::BeginFetched) as soon as it exists.
  virtual void Fetch(int chunk, int64_t version) = 0;
  // Returns a reference to an arena of Exchange::TakeArena for one of its
  // chunks: when the reference and its copies are released, the chunk's memory
  // is free.
  virtual Buffer ChunkOf(const Buffer& arena, int chunk) = 0;
  // Sends version 0 of the chunk, whose elements are in `arena`.
  virtual void PushInitialChunk(int chunk, Buffer arena) = 0;
  // Blocks until at most `most` references of ChunkOf exist. Returns false
  // after `patience`.
  virtual bool AwaitReleased(int64_t most, absl::Duration patience) = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_CHUNK_MEMORY_H_
