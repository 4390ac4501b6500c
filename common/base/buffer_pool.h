// Reference-counted float buffers of one size that are used again and again, so
// that a step allocates nothing.
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

// Shared because a buffer is at once an input of the next update and the
// payload of several outgoing messages; the last of them returns it to its
// pool.
using Buffer = std::shared_ptr<float>;

// A buffer of its own, of unspecified contents, aligned as a pool's. Throws
// std::bad_alloc.
Buffer AllocateBuffer(int64_t elements);

// Pins memory for a device's copies (see Device::PinHostMemory), for as long as
// the handle lives. Any thread. Null: nothing is to be pinned.
using PinMemory =
    std::function<std::shared_ptr<void>(void* memory, size_t bytes)>;

// The same buffer, pinned, and unpinned before its memory goes.
Buffer PinnedBuffer(Buffer buffer, size_t bytes, const PinMemory& pin);

// Thread-safe. Buffers may outlive the pool.
class BufferPool {
 public:
  // Buffers of `elements` floats, aligned to 64 bytes (to 2 MiB, in huge pages,
  // where they are larger than that).
  explicit BufferPool(int64_t elements);
  // The same, but as long as `source` gives memory, new buffers lie there.
  BufferPool(int64_t elements, std::function<Buffer()> source);

  // A buffer of unspecified contents: a returned one if there is any, else a
  // new one. Never waits.
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
