#include <algorithm>

#include "common/numerics/philox.h"
#include "tributary/worker.h"

namespace tributary {

Random::Random(uint64_t seed, uint32_t purpose, uint32_t a, uint32_t b)
    : seed_(seed), purpose_(purpose), a_(a), b_(b) {}

uint32_t Random::Bits() {
  if (position_ % 4 == 0) {
    const RandomStream stream = {seed_, static_cast<RandomPurpose>(purpose_),
                                 a_, b_};
    const PhiloxBlock block = stream.Block(position_ / 4);
    std::copy(block.begin(), block.end(), block_);
  }
  return block_[position_++ % 4];
}

float Random::Uniform() { return UniformFloat(Bits()); }

}  // namespace tributary
