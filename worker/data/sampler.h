// Selection of the samples of each micro-batch: a pure function of the seed, so
// that resuming needs neither a record nor a replay of past samples.
#ifndef TRIBUTARY_WORKER_DATA_SAMPLER_H_
#define TRIBUTARY_WORKER_DATA_SAMPLER_H_

#include <cstdint>
#include <memory>
#include <vector>

namespace tributary {

// Name of the algorithm that selects the samples, reported in
// DataFacts.sampler. Must be changed whenever a change of the code assigns
// different samples to a micro-batch.
inline constexpr char kSamplerName[] = "tributary-1";

// Orders the samples of each epoch by a permutation keyed by (seed, epoch).
// Each epoch visits every sample once; its last batch may be short. Micro-batch
// m holds samples [m * global / micro_batches, (m + 1) * global /
// micro_batches) of the batch, where `global` is the size of a full batch. In a
// short batch, the samples beyond its end are omitted.
//
// Stateless and therefore thread-safe: the permutation is a keyed bijection,
// evaluated sample by sample (a Feistel network with cycle walking: Black and
// Rogaway, "Ciphers with arbitrary finite domains", 2002).
class Sampler {
 public:
  struct MicroBatch {
    int64_t epoch = 0;
    std::vector<int64_t> indexes;  // May be empty in a short last batch.
  };

  // `global_batch` must be a multiple of `micro_batches`.
  Sampler(uint64_t seed, int64_t samples, int64_t global_batch,
          int micro_batches);

  // Returns the number of batches in an epoch, including a short last one.
  int64_t steps_per_epoch() const;
  // Returns the samples of a micro-batch of step number `step`. Steps are
  // counted from 0 over all epochs.
  MicroBatch MicroBatchOf(int64_t step, int micro_batch) const;

 private:
  uint64_t seed_;
  int64_t samples_;
  int64_t global_batch_;
  int micro_batches_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_SAMPLER_H_
