// Notices of chunks that lie in shared memory.
#ifndef TRIBUTARY_COMMON_STREAM_NOTICES_H_
#define TRIBUTARY_COMMON_STREAM_NOTICES_H_

#include <cstddef>
#include <cstdint>

namespace tributary {

// Number of chunks in shared memory that one message announces while more
// follow. It is large enough that accessing the chunks takes longer than the
// message, and that a server's `chunks` need at most 32 messages per step.
constexpr size_t NoticesPerMessage(size_t chunks, int64_t chunk_elements) {
  constexpr int64_t kElements = 1 << 20;
  const size_t enough = (kElements + chunk_elements - 1) / chunk_elements;
  return enough > chunks / 32 ? enough : chunks / 32;
}

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_STREAM_NOTICES_H_
