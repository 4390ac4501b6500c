// Validates the `model` of a job.
#ifndef TRIBUTARY_COMMON_JOB_JOB_MODEL_VALIDATION_H_
#define TRIBUTARY_COMMON_JOB_JOB_MODEL_VALIDATION_H_

#include "absl/status/status.h"
#include "proto/job.pb.h"

namespace tributary {

// Returns InvalidArgument, naming the field, for a value that is invalid by
// itself or in combination with the job's batch. `job` must have its defaults
// set.
absl::Status ValidateModel(const JobSpec& job);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_JOB_JOB_MODEL_VALIDATION_H_
