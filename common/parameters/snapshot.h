// A copy of the state of one server, its weights and the state of its
// optimizer, at one version.
#ifndef TRIBUTARY_COMMON_PARAMETERS_SNAPSHOT_H_
#define TRIBUTARY_COMMON_PARAMETERS_SNAPSHOT_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "common/base/buffer_pool.h"
#include "common/parameters/arena_layout.h"

namespace tributary {

// The weights and the optimizer's state of a server's chunks, at one version.
// Its buffers are copies, or shared buffers that are no longer written, so they
// may be read while training continues.
struct Snapshot {
  struct Chunk {
    int number = 0;
    Buffer values;              // The weights, as float32.
    std::vector<Buffer> slots;  // See Optimizer::slot_names.
    int64_t elements = 0;       // Number of elements in use in each buffer.
  };
  int64_t version = 0;
  std::vector<Chunk> chunks;  // Sorted by number.
};

// Returns a snapshot with buffers for the chunks with the numbers `chunks`,
// each with `slots` arrays of optimizer state. The contents of the buffers are
// unspecified.
inline Snapshot MakeSnapshot(const ArenaLayout& layout,
                             const std::vector<int>& chunks, int slots) {
  BufferPool buffers(layout.chunk_elements());
  Snapshot snapshot;
  for (const int number : chunks) {
    Snapshot::Chunk chunk;
    chunk.number = number;
    chunk.elements = layout.ChunkSize(number);
    chunk.values = buffers.Take();
    for (int slot = 0; slot < slots; ++slot) {
      chunk.slots.push_back(buffers.Take());
    }
    snapshot.chunks.push_back(std::move(chunk));
  }
  return snapshot;
}

// Copies the weights and the optimizer's state in `from` into the buffers of
// `*to`, which must have the same chunks.
inline void CopySnapshot(const Snapshot& from, Snapshot* to) {
  to->version = from.version;
  for (size_t i = 0; i < from.chunks.size(); ++i) {
    const Snapshot::Chunk& chunk = from.chunks[i];
    Snapshot::Chunk& copy = to->chunks[i];
    std::copy_n(chunk.values.get(), chunk.elements, copy.values.get());
    for (size_t slot = 0; slot < chunk.slots.size(); ++slot) {
      std::copy_n(chunk.slots[slot].get(), chunk.elements,
                  copy.slots[slot].get());
    }
  }
}

// Collects copies of all chunks of a server at one version into a snapshot. The
// caller adds the copy of each chunk when the chunk reaches the version. A
// chunk's version is the number of steps applied to it. Thread-safe.
class SnapshotCapture {
 public:
  // `chunks` is the number of chunks to collect. Calls `done` with the snapshot
  // in the last call of Put or Release, on the thread that makes this call.
  SnapshotCapture(int64_t version, size_t chunks,
                  std::function<void(Snapshot)> done)
      : done_(std::move(done)), missing_(chunks + 1) {
    snapshot_.version = version;
    snapshot_.chunks.resize(chunks);
  }

  int64_t version() const { return snapshot_.version; }
  // Adds the copy of one chunk as element `place` of Snapshot::chunks. Call
  // once per chunk.
  void Put(int place, Snapshot::Chunk copy) {
    snapshot_.chunks[place] = std::move(copy);
    Release();
  }
  // Call once, after the copy of every chunk has been made or scheduled. `done`
  // is not called before this call.
  void Release() {
    if (--missing_ == 0) done_(std::move(snapshot_));
  }

 private:
  const std::function<void(Snapshot)> done_;
  Snapshot snapshot_;
  // Number of calls that have not been made yet: one Put per chunk, and one
  // Release.
  std::atomic<size_t> missing_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_PARAMETERS_SNAPSHOT_H_
