// The lower bound of an exchange for any transport: adding all workers'
// gradients and running the optimizer.
#ifndef TRIBUTARY_DEPLOY_PLAN_UPDATE_PASS_H_
#define TRIBUTARY_DEPLOY_PLAN_UPDATE_PASS_H_

#include "absl/status/statusor.h"
#include "proto/job.pb.h"

namespace tributary {

// Returns the mean seconds of one pass over the model of `job` (resolved,
// model.synthetic) by servers with `threads` threads in total. Runs in this
// process with optimal memory placement: reads every gradient and state once,
// and writes weights and state once. Measures for about `seconds`.
absl::StatusOr<double> MeasureUpdatePass(const JobSpec& job, int workers,
                                         int threads, double seconds);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_PLAN_UPDATE_PASS_H_
