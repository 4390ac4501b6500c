// Measures the inputs of a plan on this machine.
#ifndef TRIBUTARY_DEPLOY_PLAN_LOCAL_TIMING_H_
#define TRIBUTARY_DEPLOY_PLAN_LOCAL_TIMING_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/plan/step_model.h"
#include "proto/job.pb.h"
#include "worker/training/training_setup.h"

namespace tributary {

// Returns true if a timing of `repetitions` repetitions, which took `elapsed`
// together, needs no further one: after a second and four repetitions, of which
// the first is not counted, or after ten seconds and any number of repetitions.
bool EnoughRepetitions(int repetitions, absl::Duration elapsed);

// Times forward and backward of one micro-batch, with initial weights, on one
// of the compute threads of `setup`, while the other threads do the same.
// Records when each chunk's weights are first read and when its gradient is
// final. Repeats this as long as EnoughRepetitions returns false, and returns
// the profile of the repetition with the median time; the first is left out if
// there are others. Returns the errors of Model::ForwardBackward.
absl::StatusOr<ComputeProfile> TimeMicroBatch(const TrainingSetup& setup);

// The time, in seconds per element, in which a server adds gradients and
// updates the weights in its memory. Measured by TimePass.
struct PassTiming {
  double update = 0;        // Time to run the optimizer with one gradient.
  double contribution = 0;  // Time to add each further gradient.
};
// Measures in what time a server with `threads` threads adds gradients and
// updates the weights of a model of `elements` elements, but of at most 4 Mi
// elements per thread. The number of elements affects the result, because a
// small model stays in the cache. Returns InvalidArgument for an invalid
// optimizer.
absl::StatusOr<PassTiming> TimePass(const OptimizerSpec& optimizer,
                                    int64_t elements, int threads);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_PLAN_LOCAL_TIMING_H_
