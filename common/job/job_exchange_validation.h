// Validates the `exchange` of a job.
#ifndef TRIBUTARY_COMMON_JOB_JOB_EXCHANGE_VALIDATION_H_
#define TRIBUTARY_COMMON_JOB_JOB_EXCHANGE_VALIDATION_H_

#include "absl/status/status.h"
#include "proto/job.pb.h"

namespace tributary {

// Returns InvalidArgument, naming the field, for a value that is invalid by
// itself or in combination with another field. `exchange` must have its
// defaults set.
absl::Status ValidateExchange(const ExchangeSpec& exchange);

// These functions check whether a job with optimizer.program or optimizer.lamb
// supports it.
absl::Status ValidateProgramRule(const JobSpec& job);
absl::Status ValidateLamb(const JobSpec& job);

// Checks whether the job's exchange supports the fields of `recovery`.
absl::Status ValidateRecovery(const JobSpec& job);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_JOB_JOB_EXCHANGE_VALIDATION_H_
