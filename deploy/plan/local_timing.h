// Times on this machine what a plan is made from.
#ifndef TRIBUTARY_DEPLOY_PLAN_LOCAL_TIMING_H_
#define TRIBUTARY_DEPLOY_PLAN_LOCAL_TIMING_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "common/plan/step_model.h"
#include "proto/job.pb.h"
#include "worker/training/training_setup.h"

namespace tributary {

// Forward and backward of one leaf, with initial weights, on one of the
// setup's lanes while the others do the same; when each chunk's weights are
// read and its gradient is done. The repetition with the median time of those
// that fit into about a second, three at least.
absl::StatusOr<ComputeProfile> TimeMicroBatch(const TrainingSetup& setup);

// A server's pass over memory, with `threads` of them at work, in seconds per
// element: what n elements take is n times as long. Of a model of `elements`:
// a small one stays in the cache.
struct PassTiming {
  double update = 0;        // The optimizer, from one gradient.
  double contribution = 0;  // Each further gradient to be added before.
};
absl::StatusOr<PassTiming> TimePass(const OptimizerSpec& optimizer,
                                    int64_t elements, int threads);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_PLAN_LOCAL_TIMING_H_
