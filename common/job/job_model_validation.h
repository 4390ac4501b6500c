// What a job's `model` must hold.
#ifndef TRIBUTARY_COMMON_JOB_JOB_MODEL_VALIDATION_H_
#define TRIBUTARY_COMMON_JOB_JOB_MODEL_VALIDATION_H_

#include "absl/status/status.h"
#include "proto/job.pb.h"

namespace tributary {

// InvalidArgument, naming the field, for what makes no sense by itself or with
// the job's batch. `job` has its defaults.
absl::Status ValidateModel(const JobSpec& job);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_JOB_JOB_MODEL_VALIDATION_H_
