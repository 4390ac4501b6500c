// Measures the inputs of a plan on this machine.
#ifndef TRIBUTARY_DEPLOY_PLAN_LOCAL_TIMING_H_
#define TRIBUTARY_DEPLOY_PLAN_LOCAL_TIMING_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "common/plan/step_model.h"
#include "proto/job.pb.h"
#include "worker/training/training_setup.h"

namespace tributary {

// Times forward and backward of one micro-batch, with initial weights, on one
// of the setup's compute threads while the others do the same. Records when
// each chunk's weights are read and its gradient is final. Returns the
// repetition with the median time of those that fit into about a second, at
// least three.
absl::StatusOr<ComputeProfile> TimeMicroBatch(const TrainingSetup& setup);

// Time of a server's pass over memory with `threads` threads, in seconds per
// element, for a model of `elements`: a small model stays in the cache.
struct PassTiming {
  double update = 0;        // Optimizer step from one gradient.
  double contribution = 0;  // Addition of each further gradient.
};
absl::StatusOr<PassTiming> TimePass(const OptimizerSpec& optimizer,
                                    int64_t elements, int threads);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_PLAN_LOCAL_TIMING_H_
