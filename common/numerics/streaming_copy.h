// A copy that bypasses the caches, for memory that is too large to stay in
// them.
#ifndef TRIBUTARY_COMMON_NUMERICS_STREAMING_COPY_H_
#define TRIBUTARY_COMMON_NUMERICS_STREAMING_COPY_H_

#include <cstdint>

namespace tributary {

// Copies `count` floats like std::memcpy, but with stores that neither load the
// destination into the cache nor keep it there. This saves a third of the
// memory traffic, but the next read of `to` has to read from memory. `from` may
// be unaligned. Other threads see the result after the usual synchronization
// with the calling thread. The arrays must not overlap. Concurrent calls with
// different `to` are allowed.
void StreamingCopy(const void* from, int64_t count, float* to);

// The minimum size, in bytes, of arrays that benefit from StreamingCopy: about
// twice a core's share of the caches of current servers.
inline constexpr int64_t kStreamingBytes = int64_t{32} << 20;

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_NUMERICS_STREAMING_COPY_H_
