// A copy that bypasses the caches, for memory that is too large to stay in
// them.
#ifndef TRIBUTARY_COMMON_NUMERICS_STREAMING_COPY_H_
#define TRIBUTARY_COMMON_NUMERICS_STREAMING_COPY_H_

#include <cstdint>

namespace tributary {

// Like std::memcpy, with stores that neither read the replaced cache lines nor
// keep them in the cache. This saves a third of the memory traffic, but the
// next read comes from memory. `from` may be unaligned. Threads that
// synchronize with this one see the result. The arrays must not overlap.
// Thread-safe for different `to`.
void StreamingCopy(const void* from, int64_t count, float* to);

// Size in bytes from which arrays benefit from StreamingCopy: about twice a
// core's share of the caches of current servers.
inline constexpr int64_t kStreamingBytes = int64_t{32} << 20;

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_NUMERICS_STREAMING_COPY_H_
