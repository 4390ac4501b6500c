// Float buffers of different sizes that are used again.
#ifndef TRIBUTARY_COMMON_STREAM_SPARE_BUFFERS_H_
#define TRIBUTARY_COMMON_STREAM_SPARE_BUFFERS_H_

#include <cstdint>
#include <memory>

#include "common/base/buffer_pool.h"

namespace tributary {

// Keeps a few buffers that were released, for data whose size differs little
// from one step to the next. New memory would have to be cleared by the kernel,
// which takes about as long as copying into it. Thread-safe. Buffers may
// outlive the object.
class SpareBuffers {
 public:
  // Keeps the `most` buffers that were released last.
  explicit SpareBuffers(int most);

  // Returns a buffer with unspecified contents, of at least `elements` floats,
  // and sets `*capacity` to how many it has. Throws std::bad_alloc if memory is
  // exhausted.
  Buffer Take(int64_t elements, int64_t* capacity);

 private:
  struct Spares;

  const std::shared_ptr<Spares> spares_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_STREAM_SPARE_BUFFERS_H_
