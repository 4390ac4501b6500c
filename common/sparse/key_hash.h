// Where the row of a key belongs: the bucket of its table, and the server.
#ifndef TRIBUTARY_COMMON_SPARSE_KEY_HASH_H_
#define TRIBUTARY_COMMON_SPARSE_KEY_HASH_H_

#include <cstdint>

#include "common/numerics/mix_bits.h"

namespace tributary {

// Returns the hash of a key: a permutation of all 64-bit numbers.
constexpr uint64_t KeyHash(uint64_t key) { return MixBits(key); }

// Returns the bucket of the key with this hash, in a table of `buckets`
// buckets.
constexpr int BucketOfHash(uint64_t hash, int buckets) {
  return static_cast<int>(hash % static_cast<uint64_t>(buckets));
}

// Returns the server that holds a bucket.
constexpr int ServerOfBucket(int bucket, int servers) {
  return bucket % servers;
}

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_SPARSE_KEY_HASH_H_
