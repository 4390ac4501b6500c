// A pool of reference-counted float buffers of equal size. Reusing buffers
// avoids memory allocations in training steps.
#ifndef TRIBUTARY_COMMON_BASE_BUFFER_POOL_H_
#define TRIBUTARY_COMMON_BASE_BUFFER_POOL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace tributary {

// A reference-counted float buffer. For example, one buffer with weights can be
// an input of the next optimizer update and, at the same time, the payload of
// several outgoing messages. When the last reference is released, the buffer
// returns to its pool, or is freed if it belongs to no pool.
using Buffer = std::shared_ptr<float>;

// Returns a buffer of `elements` floats that belongs to no pool. Its contents
// are unspecified, and it is aligned like the buffers of a BufferPool. Throws
// std::bad_alloc if memory is exhausted.
Buffer AllocateBuffer(int64_t elements);

// Returns the memory that a block of `bytes` bytes takes: large blocks consist
// of huge pages.
int64_t BlockBytes(int64_t bytes);

// A function that pins (page-locks) `bytes` bytes of host memory at `memory`,
// so that a GPU can copy to and from it directly (see Copies::PinHostMemory).
// The memory stays pinned for the lifetime of the returned handle. Returns null
// if the memory cannot be pinned. Thread-safe. If a PinMemory is null, no
// memory is pinned.
using PinMemory =
    std::function<std::shared_ptr<void>(void* memory, size_t bytes)>;

// Pins the first `bytes` bytes of `buffer` with `pin`, and returns a reference
// to the buffer. The bytes stay pinned until this reference and its copies are
// released, and are unpinned before the memory is freed. Returns `buffer`
// itself if `pin` is null or returns null.
Buffer PinnedBuffer(Buffer buffer, size_t bytes, const PinMemory& pin);

// A pool of equally sized buffers. Thread-safe. Buffers may outlive the pool.
class BufferPool {
 public:
  // Buffers have `elements` floats and are aligned to 64 bytes. Buffers of 2
  // MiB or more are aligned to 2 MiB and use huge pages if the kernel provides
  // them.
  explicit BufferPool(int64_t elements);
  // Like BufferPool(elements), but obtains new buffers from `source`, which
  // must be thread-safe. `source` returns a buffer of `elements` floats, or
  // null to let the pool allocate the buffer.
  BufferPool(int64_t elements, std::function<Buffer()> source);

  // Returns a buffer with unspecified contents: one that has returned to the
  // pool if there is any, otherwise a new one. Never waits for a buffer to
  // return. Throws std::bad_alloc if memory is exhausted.
  Buffer Take();

  int64_t elements() const { return elements_; }

 private:
  struct FreeList;

  const int64_t elements_;
  const std::function<Buffer()> source_;
  const std::shared_ptr<FreeList> free_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_BASE_BUFFER_POOL_H_
