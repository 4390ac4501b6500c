// Validates the `sparse` tables of a job.
#ifndef TRIBUTARY_COMMON_JOB_JOB_SPARSE_VALIDATION_H_
#define TRIBUTARY_COMMON_JOB_JOB_SPARSE_VALIDATION_H_

#include "absl/status/status.h"
#include "proto/job.pb.h"

namespace tributary {

// Returns InvalidArgument, naming the field, if a field of the job's tables or
// features is invalid, if the rest of the job does not work with tables, or if
// the job lacks the tables that its model needs. The other fields of `job` must
// be valid.
absl::Status ValidateSparse(const JobSpec& job);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_JOB_JOB_SPARSE_VALIDATION_H_
