// One server's state at one version, as it was then.
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
#include "common/parameters/parameter_table.h"

namespace tributary {

// Owns its copies, or shares what will not be written any more: whoever holds
// it may read it while training goes on.
struct Snapshot {
  struct Chunk {
    int number = 0;
    Buffer values;              // The optimizer's weights, float32.
    std::vector<Buffer> slots;  // Its state, see Optimizer::slots.
    int64_t elements = 0;       // Of each buffer; the rest is not used.
  };
  int64_t version = 0;
  std::vector<Chunk> chunks;  // Ascending.
};

// Buffers for these chunks, with so many arrays of optimizer state, of
// unspecified contents.
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

// Copies into the buffers of `*to`, which has the same chunks.
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

// A snapshot in the making: each chunk puts in its copy when it comes to the
// version. Thread-safe.
class SnapshotCapture {
 public:
  // `done` is called once, by the Put or Release that comes last.
  SnapshotCapture(int64_t version, size_t chunks,
                  std::function<void(Snapshot)> done)
      : done_(std::move(done)), missing_(chunks + 1) {
    snapshot_.version = version;
    snapshot_.chunks.resize(chunks);
  }

  int64_t version() const { return snapshot_.version; }
  // `place` among the chunks. Each chunk once.
  void Put(int place, Snapshot::Chunk copy) {
    snapshot_.chunks[place] = std::move(copy);
    Release();
  }
  // To be called once: all chunks know of it.
  void Release() {
    if (--missing_ == 0) done_(std::move(snapshot_));
  }

 private:
  const std::function<void(Snapshot)> done_;
  Snapshot snapshot_;
  std::atomic<size_t> missing_;  // Copies, and Release.
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_PARAMETERS_SNAPSHOT_H_
