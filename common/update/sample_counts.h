// The sample counts that contributions must have.
#ifndef TRIBUTARY_COMMON_UPDATE_SAMPLE_COUNTS_H_
#define TRIBUTARY_COMMON_UPDATE_SAMPLE_COUNTS_H_

#include <cstdint>

#include "common/job/rounds.h"
#include "proto/job.pb.h"

namespace tributary {

// Computes the number of samples (for text, tokens) in the micro-batches under
// a node of the reduction tree, for one round. A round is what servers count as
// one step: with local SGD, several steps of the job; otherwise one. The number
// depends only on the job and the size of its data, so a server can check what
// workers send. proto/SAMPLING.md defines which samples a micro-batch contains.
// With data.external only the workers know how many of these samples count, so
// the computed number is an upper bound. Immutable.
class SampleCounts {
 public:
  // `job` is a result of ResolveJob, and has `steps` steps. It must not be a
  // result of JobOfRounds. `train_samples` is at least 1.
  SampleCounts(const JobSpec& job, int64_t steps, int64_t train_samples);

  // Returns the number of samples under `node` in all steps of `round`. `node`
  // must be a node of the reduction tree, and `round` below the number of
  // rounds.
  int64_t Of(int64_t round, int node) const;
  // Returns true if a contribution of `node` in `round` may have the sample
  // count `count`.
  bool Allows(int64_t round, int node, int64_t count) const;
  // Returns true if the sample count of a contribution must equal the result of
  // Of, and false if the result of Of is only an upper bound.
  bool exact() const { return exact_; }

 private:
  const Rounds rounds_;
  const int leaves_;
  const int64_t global_;
  const int64_t train_samples_;
  const int64_t steps_per_epoch_;
  // The largest number that one sample adds to a sample count, such as the
  // number of tokens of a sequence; see UnitsPerSample of common/job/job.h.
  const int64_t per_sample_;
  const bool exact_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_UPDATE_SAMPLE_COUNTS_H_
