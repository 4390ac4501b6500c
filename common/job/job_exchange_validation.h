// What a job's `exchange` must hold.
#ifndef TRIBUTARY_COMMON_JOB_JOB_EXCHANGE_VALIDATION_H_
#define TRIBUTARY_COMMON_JOB_JOB_EXCHANGE_VALIDATION_H_

#include "absl/status/status.h"
#include "proto/job.pb.h"

namespace tributary {

// InvalidArgument, naming the field, for what makes no sense by itself or
// beside another field. `exchange` has its defaults.
absl::Status ValidateExchange(const ExchangeSpec& exchange);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_JOB_JOB_EXCHANGE_VALIDATION_H_
