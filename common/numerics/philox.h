// Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw,
// "Parallel random numbers: as easy as 1, 2, 3", SC 2011). The n-th number of a
// stream is a pure function of (key, counter), so any process can compute any
// part of the stream, in any order, with the same bits. The functions are
// constexpr so that GPU code can call them.
#ifndef TRIBUTARY_COMMON_NUMERICS_PHILOX_H_
#define TRIBUTARY_COMMON_NUMERICS_PHILOX_H_

#include <array>
#include <cstdint>

namespace tributary {

// The purpose of a random stream. Streams with the same seed but different
// purposes are independent. The values of the enumerators determine the random
// numbers and therefore the results of training, so they must never change.
enum class RandomPurpose : uint32_t {
  kInitialization = 1,
  kDropout = 2,
  kSampleOrder = 3,
  kWindowPhase = 4,
  kGeneration = 5,
  kMadeUpData = 6,
  kMasking = 7,
  kAugmentation = 8,
  kClicks = 10,
};

using PhiloxBlock = std::array<uint32_t, 4>;

// Returns four random numbers, each uniformly distributed over all 32-bit
// values. A pure function of `counter` and `key`.
constexpr PhiloxBlock Philox(PhiloxBlock counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * counter[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

// A stream of random numbers. (seed, purpose) form the key of Philox; (a, b)
// and the position in the stream form the counter. For dropout, `a` is the
// step, and `b` combines micro-batch and layer. For initialization, `a` is 0,
// and `b` is the parameter's index in the parameter table.
struct RandomStream {
  uint64_t seed = 0;
  RandomPurpose purpose = RandomPurpose::kInitialization;
  uint32_t a = 0;
  uint32_t b = 0;

  // Returns numbers [4 * block, 4 * block + 4) of the stream.
  constexpr PhiloxBlock Block(uint64_t block) const {
    return Philox(
        {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), a,
         b},
        {static_cast<uint32_t>(seed) ^
             (static_cast<uint32_t>(purpose) * 0x85EBCA6Bu),
         static_cast<uint32_t>(seed >> 32) ^ static_cast<uint32_t>(purpose)});
  }
};

// Returns a number in [0, 1), computed from the upper 24 bits of `bits`, which
// are random. Float32 represents the result exactly.
constexpr float UniformFloat(uint32_t bits) {
  return static_cast<float>(bits >> 8) * 0x1p-24f;
}

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_NUMERICS_PHILOX_H_
