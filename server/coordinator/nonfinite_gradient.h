// Messages for users about a gradient that is not finite.
#ifndef TRIBUTARY_SERVER_COORDINATOR_NONFINITE_GRADIENT_H_
#define TRIBUTARY_SERVER_COORDINATOR_NONFINITE_GRADIENT_H_

#include <string>

#include "absl/status/status.h"
#include "common/parameters/arena_layout.h"
#include "server/membership/membership.h"
#include "server/progress/job_progress.h"

namespace tributary {

// Returns the error that ends a job with on_nonfinite: STOP. The error names
// the step and the parameter, and states what the user can do. If a worker's
// contribution was not finite and the worker is still a member, the error also
// names the worker.
absl::Status NonfiniteError(const JobProgress::NonfiniteGradient& gradient,
                            const ArenaLayout& layout,
                            const Membership& membership);

// Returns the line of metrics.jsonl for a step that was skipped because of
// on_nonfinite: SKIP.
std::string SkippedStepLine(const JobProgress::NonfiniteGradient& gradient,
                            const ArenaLayout& layout,
                            const Membership& membership);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_COORDINATOR_NONFINITE_GRADIENT_H_
