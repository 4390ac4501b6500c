// Validates the `data` of a job.
#ifndef TRIBUTARY_COMMON_JOB_JOB_DATA_VALIDATION_H_
#define TRIBUTARY_COMMON_JOB_JOB_DATA_VALIDATION_H_

#include "absl/status/status.h"
#include "proto/job.pb.h"

namespace tributary {

// Returns InvalidArgument, naming the field, if a field of the job's data is
// invalid, or if the data do not fit the job's model. `job` must have its
// defaults set.
absl::Status ValidateData(const JobSpec& job);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_JOB_JOB_DATA_VALIDATION_H_
