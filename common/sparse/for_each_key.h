// Looks up the rows of many keys.
#ifndef TRIBUTARY_COMMON_SPARSE_FOR_EACH_KEY_H_
#define TRIBUTARY_COMMON_SPARSE_FOR_EACH_KEY_H_

#include <cstdint>

#include "absl/types/span.h"
#include "common/sparse/key_hash.h"

namespace tributary {

// Looks up keys in three stages, so that the cache misses of many keys overlap:
// loads the line of the index, then the row, and then calls
// visit(place, hash, bucket). `bucket_of`(hash) returns the TableBucket of a
// key, whose rows have `row_bytes` bytes.
template <typename BucketOf, typename Visit>
void ForEachKey(absl::Span<const uint64_t> keys, int64_t row_bytes,
                const BucketOf& bucket_of, const Visit& visit) {
  // Long enough for a miss of each stage, and few enough lines for the cache.
  constexpr int64_t kAhead = 12;
  constexpr int64_t kRing = 32;
  struct Search {
    uint64_t hash;
    decltype(bucket_of(uint64_t{})) bucket;
  };
  Search ring[kRing];
  const auto count = static_cast<int64_t>(keys.size());
  for (int64_t i = 0; i < count + 2 * kAhead; ++i) {
    if (i < count) {
      Search& search = ring[i % kRing];
      search.hash = KeyHash(keys[i]);
      search.bucket = bucket_of(search.hash);
      search.bucket->Prefetch(search.hash);
    }
    if (const int64_t j = i - kAhead; j >= 0 && j < count) {
      const Search& search = ring[j % kRing];
      const auto* row = reinterpret_cast<const char*>(
          search.bucket->rows().Candidate(search.hash));
      if (row != nullptr) {
        for (int64_t byte = 0; byte < row_bytes; byte += 64) {
          __builtin_prefetch(row + byte, /*rw=*/1);
        }
        __builtin_prefetch(row + row_bytes - 1, /*rw=*/1);
      }
    }
    if (const int64_t j = i - 2 * kAhead; j >= 0) {
      const Search& search = ring[j % kRing];
      visit(j, search.hash, search.bucket);
    }
  }
}

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_SPARSE_FOR_EACH_KEY_H_
