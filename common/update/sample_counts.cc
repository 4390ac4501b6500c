#include "common/update/sample_counts.h"

#include <algorithm>

#include "common/job/job.h"
#include "common/parameters/reduction_tree.h"

namespace tributary {

SampleCounts::SampleCounts(const JobSpec& job, int64_t steps,
                           int64_t train_samples)
    : rounds_(job, steps),
      leaves_(static_cast<int>(job.batch().micro_batches())),
      global_(job.batch().global()),
      train_samples_(train_samples),
      steps_per_epoch_((train_samples - 1) / global_ + 1),
      per_sample_(UnitsPerSample(job)),
      exact_(!SampleCountsVary(job)) {}

bool SampleCounts::Allows(int64_t round, int node, int64_t count) const {
  const int64_t most = Of(round, node);
  return count <= most && count >= (exact_ ? most : 0);
}

int64_t SampleCounts::Of(int64_t round, int node) const {
  const LeafRange leaves = LeavesUnder(node, leaves_);
  const int64_t micro_batch = global_ / leaves_;
  const int64_t full = (leaves.end - leaves.begin) * micro_batch;
  const int64_t last_batch = (steps_per_epoch_ - 1) * global_;
  const auto place = [&](int leaf) {
    return std::min(train_samples_, last_batch + leaf * micro_batch);
  };
  const int64_t begin = rounds_.StepsAfter(round);
  const int64_t end = rounds_.StepsAfter(round + 1);
  // Steps whose batch is the last one of an epoch, and may be short.
  const int64_t last_batches =
      end / steps_per_epoch_ - begin / steps_per_epoch_;
  return per_sample_ *
         ((end - begin - last_batches) * full +
          last_batches * (place(leaves.end) - place(leaves.begin)));
}

}  // namespace tributary
