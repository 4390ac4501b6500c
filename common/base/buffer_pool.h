// A pool of reference-counted float buffers of one size. Reusing buffers keeps
// a training step free of allocations.
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

// Buffers are shared, because one buffer is both an input of the next update
// and the payload of several outgoing messages. When the last reference is
// released, the buffer returns to its pool.
using Buffer = std::shared_ptr<float>;

// Returns a buffer that belongs to no pool, with unspecified contents and the
// alignment of the buffers of a pool. Throws std::bad_alloc.
Buffer AllocateBuffer(int64_t elements);

// A function that pins `bytes` bytes at `memory` for copies to and from a
// device (see Copies::PinHostMemory). The memory stays pinned for the lifetime
// of the returned handle. Thread-safe. A null function pins nothing.
using PinMemory =
    std::function<std::shared_ptr<void>(void* memory, size_t bytes)>;

// Pins the first `bytes` bytes of `buffer` with `pin`, and returns a reference
// to the buffer that keeps them pinned. They are unpinned before the memory is
// freed.
Buffer PinnedBuffer(Buffer buffer, size_t bytes, const PinMemory& pin);

// A pool of equally sized buffers. Thread-safe. Buffers may outlive the pool.
class BufferPool {
 public:
  // Buffers have `elements` floats and are aligned to 64 bytes. Larger buffers
  // than 2 MiB are aligned to 2 MiB and use huge pages.
  explicit BufferPool(int64_t elements);
  // Takes new buffers from `source` until `source` returns null, and allocates
  // new buffers from then on.
  BufferPool(int64_t elements, std::function<Buffer()> source);

  // Returns a buffer with unspecified contents: one that has returned to the
  // pool if there is any, otherwise a new one. Never waits for a buffer to
  // return.
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
