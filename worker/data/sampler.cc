#include "worker/data/sampler.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "absl/numeric/int128.h"
#include "common/numerics/philox.h"

namespace tributary {
namespace {

// Makes all permutations of a few samples about equally likely, which is where
// a Feistel network is weakest. Affects the order of samples: never change it.
constexpr uint32_t kRounds = 8;

// Returns the smallest number whose square is at least `value`. Requires value
// >= 1.
uint64_t SquareRootUp(uint64_t value) {
  uint64_t root = static_cast<uint64_t>(std::sqrt(static_cast<double>(value)));
  while (root > 1 && (root - 1) * (root - 1) >= value) --root;
  while (root * root < value) ++root;
  return root;
}

// A permutation of [0, samples): a Feistel network over pairs (left, right) in
// [0, left_size) x [0, right_size), of which there are slightly more than
// samples (Black and Rogaway's generalized Feistel cipher). Each round adds a
// random function of one half to the other and is therefore invertible.
class Permutation {
 public:
  Permutation(uint64_t seed, int64_t epoch, int64_t samples)
      : samples_(static_cast<uint64_t>(samples)),
        left_size_(SquareRootUp(samples_)),
        right_size_((samples_ + left_size_ - 1) / left_size_) {
    stream_.seed = seed;
    stream_.purpose = RandomPurpose::kSampleOrder;
    stream_.a = static_cast<uint32_t>(epoch);
    stream_.b = static_cast<uint32_t>(static_cast<uint64_t>(epoch) >> 32);
  }

  int64_t operator()(int64_t place) const {
    uint64_t value = static_cast<uint64_t>(place);
    // Cycle walking: encrypt until the value is a sample. This terminates
    // because the cycle leads back to `place`.
    do {
      value = Encrypt(value);
    } while (value >= samples_);
    return static_cast<int64_t>(value);
  }

 private:
  // Returns a number in [0, size), uniform to within 2^-32: 64 random bits,
  // scaled.
  uint64_t Random(uint32_t round, uint64_t half, uint64_t size) const {
    // Halves fit into 32 bits because sample numbers fit into 63.
    const PhiloxBlock block = stream_.Block(half | uint64_t{round} << 32);
    const uint64_t bits = uint64_t{block[1]} << 32 | block[0];
    return absl::Uint128High64(absl::uint128(bits) * size);
  }

  uint64_t Encrypt(uint64_t value) const {
    uint64_t left = value / right_size_;
    uint64_t right = value % right_size_;
    for (uint32_t round = 0; round < kRounds; round += 2) {
      left = (left + Random(round, right, left_size_)) % left_size_;
      right = (right + Random(round + 1, left, right_size_)) % right_size_;
    }
    return left * right_size_ + right;
  }

  const uint64_t samples_;
  const uint64_t left_size_;
  const uint64_t right_size_;
  RandomStream stream_;
};

}  // namespace

Sampler::Sampler(uint64_t seed, int64_t samples, int64_t global_batch,
                 int micro_batches)
    : seed_(seed),
      samples_(samples),
      global_batch_(global_batch),
      micro_batches_(micro_batches) {
  assert(samples >= 1);
  assert(micro_batches >= 1 && global_batch >= 1 &&
         global_batch % micro_batches == 0);
}

int64_t Sampler::steps_per_epoch() const {
  return (samples_ - 1) / global_batch_ + 1;
}

Sampler::MicroBatch Sampler::MicroBatchOf(int64_t step, int micro_batch) const {
  assert(step >= 0 && micro_batch >= 0 && micro_batch < micro_batches_);
  MicroBatch result;
  result.epoch = step / steps_per_epoch();
  const int64_t micro_batch_size = global_batch_ / micro_batches_;
  const int64_t batch_begin = step % steps_per_epoch() * global_batch_;
  const int64_t begin =
      std::min(samples_, batch_begin + micro_batch * micro_batch_size);
  const int64_t end = std::min(samples_, begin + micro_batch_size);
  const Permutation permutation(seed_, result.epoch, samples_);
  result.indexes.reserve(static_cast<size_t>(end - begin));
  for (int64_t place = begin; place < end; ++place) {
    result.indexes.push_back(permutation(place));
  }
  return result;
}

}  // namespace tributary
