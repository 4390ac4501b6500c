// The keys of the micro-batches of row_exchange.py.
#ifndef TRIBUTARY_TESTS_BENCH_SPARSE_DRAWN_KEYS_H_
#define TRIBUTARY_TESTS_BENCH_SPARSE_DRAWN_KEYS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tributary {

// Returns `count` keys of a micro-batch below `keys`, mostly without
// duplicates.
inline std::vector<uint64_t> DrawnKeys(int64_t step, int micro_batch,
                                       size_t count, uint64_t keys) {
  std::vector<uint64_t> drawn(count);
  uint64_t state = (static_cast<uint64_t>(step) << 20) + micro_batch;
  for (uint64_t& key : drawn) {
    // SplitMix64.
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    key = (z ^ z >> 31) % keys;
  }
  return drawn;
}

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_BENCH_SPARSE_DRAWN_KEYS_H_
