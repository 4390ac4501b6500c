// Validates the `schedule` of a job.
#ifndef TRIBUTARY_COMMON_JOB_JOB_SCHEDULE_VALIDATION_H_
#define TRIBUTARY_COMMON_JOB_JOB_SCHEDULE_VALIDATION_H_

#include "absl/status/status.h"
#include "proto/job.pb.h"

namespace tributary {

// Returns InvalidArgument, naming the field, if a field of the job's schedule
// is invalid or has no effect. The optimizer and the length of `job` must be
// valid.
absl::Status ValidateSchedule(const JobSpec& job);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_JOB_JOB_SCHEDULE_VALIDATION_H_
