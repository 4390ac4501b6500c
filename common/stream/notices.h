// Notices, which are messages that announce that chunks are ready in shared
// memory.
#ifndef TRIBUTARY_COMMON_STREAM_NOTICES_H_
#define TRIBUTARY_COMMON_STREAM_NOTICES_H_

#include <cstddef>
#include <cstdint>

namespace tributary {

// Workers and servers on one host pass chunks in shared memory, and announce
// them in messages. Returns the number of chunks that one message announces;
// the last message may announce fewer. `chunks` is the number of chunks of a
// server. The result is so large that accessing the announced chunks takes
// longer than sending the message, and that fewer than 50 messages per step
// announce all `chunks`.
constexpr size_t NoticesPerMessage(size_t chunks, int64_t chunk_elements) {
  constexpr int64_t kElements = 1 << 20;
  const size_t enough = (kElements + chunk_elements - 1) / chunk_elements;
  return enough > chunks / 32 ? enough : chunks / 32;
}

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_STREAM_NOTICES_H_
