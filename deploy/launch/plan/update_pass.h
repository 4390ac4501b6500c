// Measures the time to add the gradients of all workers and run the optimizer.
// This is the minimum time of an exchange over any transport.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_PLAN_UPDATE_PASS_H_
#define TRIBUTARY_DEPLOY_LAUNCH_PLAN_UPDATE_PASS_H_

#include "absl/status/statusor.h"
#include "proto/job.pb.h"

namespace tributary {

// Returns the mean time, in seconds, in which `threads` threads of this process
// add the gradients of `workers` workers and update a model of the size of
// `job`. Everything is in local memory: one pass reads each gradient, the
// weights and the optimizer's state once, and writes weights and state once.
// Measures at least five passes, for at least `seconds`, after one pass that is
// not counted. `job` must be a result of ResolveJob and have model.synthetic.
// Returns InvalidArgument for an invalid optimizer.
absl::StatusOr<double> MeasureUpdatePass(const JobSpec& job, int workers,
                                         int threads, double seconds);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_PLAN_UPDATE_PASS_H_
