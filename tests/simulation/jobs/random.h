// The only source of randomness in a simulated history. Its values depend only
// on the seed, on every machine.
#ifndef TRIBUTARY_TESTS_SIMULATION_JOBS_RANDOM_H_
#define TRIBUTARY_TESTS_SIMULATION_JOBS_RANDOM_H_

#include <cstdint>

#include "absl/time/time.h"

namespace tributary::simulation {

// Mixes the bits of two numbers, as in splitmix64.
inline uint64_t Mix(uint64_t a, uint64_t b) {
  uint64_t x = a + 0x9e3779b97f4a7c15u * (b + 1);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// A pseudo-random number generator. Not thread-safe.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(Mix(seed, 1)) {}

  uint64_t Bits() { return Mix(state_, ++count_); }
  // Returns a number from `low` to `high`, inclusive.
  int64_t Uniform(int64_t low, int64_t high) {
    return low +
           static_cast<int64_t>(Bits() % static_cast<uint64_t>(high - low + 1));
  }
  // Returns a number in [0, 1).
  double Fraction() {
    return static_cast<double>(Bits() >> 11) * (1.0 / (uint64_t{1} << 53));
  }
  // Returns true with this probability.
  bool Chance(double probability) { return Fraction() < probability; }
  absl::Duration Between(absl::Duration low, absl::Duration high) {
    return low + absl::Nanoseconds(static_cast<int64_t>(
                     Fraction() * static_cast<double>(
                                      absl::ToInt64Nanoseconds(high - low))));
  }

 private:
  const uint64_t state_;
  uint64_t count_ = 0;
};

}  // namespace tributary::simulation

#endif  // TRIBUTARY_TESTS_SIMULATION_JOBS_RANDOM_H_
