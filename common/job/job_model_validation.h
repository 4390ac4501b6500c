// Validates the `model` of a job.
#ifndef TRIBUTARY_COMMON_JOB_JOB_MODEL_VALIDATION_H_
#define TRIBUTARY_COMMON_JOB_JOB_MODEL_VALIDATION_H_

#include "absl/status/status.h"
#include "proto/job.pb.h"

namespace tributary {

// Returns InvalidArgument, naming the field, if a field of `model` is invalid.
absl::Status ValidateModel(const ModelSpec& model);

// Returns InvalidArgument, naming the field, if the job's model does not fit
// its batch. `job` must have its defaults set.
absl::Status ValidateModelMemory(const JobSpec& job);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_JOB_JOB_MODEL_VALIDATION_H_
