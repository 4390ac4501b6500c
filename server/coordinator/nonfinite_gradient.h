// A gradient that is not finite, as people are told of it.
#ifndef TRIBUTARY_SERVER_COORDINATOR_NONFINITE_GRADIENT_H_
#define TRIBUTARY_SERVER_COORDINATOR_NONFINITE_GRADIENT_H_

#include <string>

#include "absl/status/status.h"
#include "common/parameters/parameter_table.h"
#include "server/membership/membership.h"
#include "server/progress/job_progress.h"

namespace tributary {

// Why a job with on_nonfinite: STOP ends there: the step, the parameter, whose
// contribution it was, and what to do.
absl::Status NonfiniteError(const JobProgress::NonfiniteGradient& gradient,
                            const ArenaLayout& layout,
                            const Membership& membership);

// For metrics.jsonl: with on_nonfinite: SKIP the step is left out.
std::string SkippedStepLine(const JobProgress::NonfiniteGradient& gradient,
                            const ArenaLayout& layout,
                            const Membership& membership);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_COORDINATOR_NONFINITE_GRADIENT_H_
