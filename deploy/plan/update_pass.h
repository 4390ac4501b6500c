// The part of an exchange that no transport can spare: adding up all workers'
// gradients and running the optimizer.
#ifndef TRIBUTARY_DEPLOY_PLAN_UPDATE_PASS_H_
#define TRIBUTARY_DEPLOY_PLAN_UPDATE_PASS_H_

#include "absl/status/statusor.h"
#include "proto/job.pb.h"

namespace tributary {

// Mean seconds of one pass over the model of `job` (resolved,
// model.synthetic) as servers with so many threads in all would make it, in
// this process and on memory that is as good as it gets: every gradient and
// state read once, weights and state written once. Measures for about
// `seconds`.
absl::StatusOr<double> MeasureUpdatePass(const JobSpec& job, int workers,
                                         int threads, double seconds);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_PLAN_UPDATE_PASS_H_
