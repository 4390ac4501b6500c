// Times on this machine what a plan is made from.
#ifndef TRIBUTARY_DEPLOY_LOCAL_TIMING_H_
#define TRIBUTARY_DEPLOY_LOCAL_TIMING_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "common/plan/step_model.h"
#include "proto/job.pb.h"
#include "worker/training_setup.h"

namespace tributary {

// Forward and backward of one leaf, with initial weights, on one of the
// setup's lanes while the others do the same; when each chunk's weights are
// read and its gradient is done. The repetition with the median time of those
// that fit into about a second, three at least.
absl::StatusOr<ComputeProfile> TimeLeaf(const TrainingSetup& setup);

// A server's pass over memory, in seconds per element on one thread, for a
// model that fits into no cache.
struct PassTiming {
  double update = 0;        // The optimizer, from one gradient.
  double contribution = 0;  // Each further gradient to be added before.
};
absl::StatusOr<PassTiming> TimePass(const OptimizerSpec& optimizer);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LOCAL_TIMING_H_
