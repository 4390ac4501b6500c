// Copies past the caches, for memory that is too large to stay in them.
#ifndef TRIBUTARY_COMMON_NUMERICS_STREAMING_COPY_H_
#define TRIBUTARY_COMMON_NUMERICS_STREAMING_COPY_H_

#include <cstdint>

namespace tributary {

// As std::memcpy, `from` at any address, with stores that neither read the
// lines they replace nor put them in the cache: a third less traffic, but
// whoever reads them next gets them from memory. Other threads that synchronize
// with this one see the result. The arrays must not overlap. Thread-safe for
// different `to`.
void StreamingCopy(const void* from, int64_t count, float* to);

// Arrays from this size on are better written so. Bytes; twice a core's share
// of the caches of today's servers, roughly.
inline constexpr int64_t kStreamingBytes = int64_t{32} << 20;

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_NUMERICS_STREAMING_COPY_H_
