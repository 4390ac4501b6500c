// Messages for users about a gradient that is not finite.
#ifndef TRIBUTARY_SERVER_COORDINATOR_NONFINITE_GRADIENT_H_
#define TRIBUTARY_SERVER_COORDINATOR_NONFINITE_GRADIENT_H_

#include <string>

#include "absl/status/status.h"
#include "common/parameters/parameter_table.h"
#include "server/membership/membership.h"
#include "server/progress/job_progress.h"

namespace tributary {

// The error that ends a job with on_nonfinite: STOP. Names the step, the
// parameter and the worker, and what to do.
absl::Status NonfiniteError(const JobProgress::NonfiniteGradient& gradient,
                            const ArenaLayout& layout,
                            const Membership& membership);

// The line in metrics.jsonl for a step that on_nonfinite: SKIP skips.
std::string SkippedStepLine(const JobProgress::NonfiniteGradient& gradient,
                            const ArenaLayout& layout,
                            const Membership& membership);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_COORDINATOR_NONFINITE_GRADIENT_H_
