// Which samples make leaf m of step s: a pure function of the seed, so that
// data need no ledger and no replay.
#ifndef TRIBUTARY_WORKER_DATA_SAMPLER_H_
#define TRIBUTARY_WORKER_DATA_SAMPLER_H_

#include <cstdint>
#include <memory>
#include <vector>

namespace tributary {

// Each epoch visits every sample once, in the order of a permutation keyed by
// (seed, epoch); its last batch may be short. Leaf m holds places [m * global /
// leaves, (m + 1) * global / leaves) of the batch, as far as the batch reaches.
// Thread-safe: the permutation of an epoch is a keyed bijection (a Feistel
// network with cycle walking: Black and Rogaway, "Ciphers with arbitrary finite
// domains", 2002), computed sample by sample, so there is no state.
class Sampler {
 public:
  struct MicroBatch {
    int64_t epoch = 0;
    std::vector<int64_t> indexes;  // May be empty, for a short last batch.
  };

  // `global_batch` must be a multiple of `micro_batches`.
  Sampler(uint64_t seed, int64_t samples, int64_t global_batch,
          int micro_batches);

  int64_t steps_per_epoch() const;
  MicroBatch MicroBatchOf(int64_t step, int micro_batch) const;

 private:
  uint64_t seed_;
  int64_t samples_;
  int64_t global_batch_;
  int micro_batches_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_SAMPLER_H_
