// Measures the inputs of a plan on this machine.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_PLAN_LOCAL_TIMING_H_
#define TRIBUTARY_DEPLOY_LAUNCH_PLAN_LOCAL_TIMING_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/plan/step_model.h"
#include "proto/job.pb.h"
#include "worker/training/training_setup.h"

namespace tributary {

// Returns true if a timing may end after `repetitions` repetitions, which took
// `elapsed` in total: after at least four repetitions and one second, or after
// at least one repetition and ten seconds.
bool EnoughRepetitions(int repetitions, absl::Duration elapsed);

enum class TimingClock {
  kWall,
  // CPU time of the thread, which other programs on the machine hardly change.
  // Only for CPU devices.
  kThreadCpu,
};

// Times forward and backward of one micro-batch, with initial weights, on one
// of the compute threads of `setup`, while the other threads do the same.
// Records when each chunk's weights are first read and when its gradient is
// final. Repeats this until EnoughRepetitions returns true. Returns the profile
// of the repetition with the median time, ignoring the first repetition unless
// it is the only one. Returns the errors of Model::ForwardBackward.
absl::StatusOr<ComputeProfile> TimeMicroBatch(
    const TrainingSetup& setup, TimingClock clock = TimingClock::kWall);

// The time, in seconds per element, in which a server adds gradients and
// updates the weights in its memory. Measured by TimePass.
struct PassTiming {
  double update = 0;        // Time to run the optimizer with one gradient.
  double contribution = 0;  // Time to add each further gradient.
};
// Measures how long a server with `threads` threads takes to add gradients and
// update the weights of a model with `elements` elements, or with 4 Mi elements
// per thread if that is less. The number of elements affects the result,
// because a small model stays in the cache. Returns InvalidArgument for an
// invalid optimizer.
absl::StatusOr<PassTiming> TimePass(const OptimizerSpec& optimizer,
                                    int64_t elements, int threads);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_PLAN_LOCAL_TIMING_H_
