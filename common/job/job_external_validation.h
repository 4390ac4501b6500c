// Validates model.external and data.external.
#ifndef TRIBUTARY_COMMON_JOB_JOB_EXTERNAL_VALIDATION_H_
#define TRIBUTARY_COMMON_JOB_JOB_EXTERNAL_VALIDATION_H_

#include "absl/status/status.h"
#include "proto/job.pb.h"

namespace tributary {

// These functions return InvalidArgument, naming the field, for a value that is
// invalid by itself or in combination with the rest of the job.
absl::Status ValidateExternalModel(const ExternalModelSpec& model);
absl::Status ValidateExternalData(const JobSpec& job);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_JOB_JOB_EXTERNAL_VALIDATION_H_
