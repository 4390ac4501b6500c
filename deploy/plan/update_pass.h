// Measures the time to add the gradients of all workers and run the optimizer.
// This is the minimum time of an exchange over any transport.
#ifndef TRIBUTARY_DEPLOY_PLAN_UPDATE_PASS_H_
#define TRIBUTARY_DEPLOY_PLAN_UPDATE_PASS_H_

#include "absl/status/statusor.h"
#include "proto/job.pb.h"

namespace tributary {

// Returns the mean time, in seconds, of one pass over the model of `job` by
// servers with `threads` threads in total. The job must be resolved and have
// model.synthetic. Runs in this process with optimal memory placement: reads
// every gradient and state once, and writes weights and state once. Measures
// for about `seconds`. Returns InvalidArgument for an invalid optimizer.
absl::StatusOr<double> MeasureUpdatePass(const JobSpec& job, int workers,
                                         int threads, double seconds);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_PLAN_UPDATE_PASS_H_
