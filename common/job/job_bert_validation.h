// Validates model.bert.
#ifndef TRIBUTARY_COMMON_JOB_JOB_BERT_VALIDATION_H_
#define TRIBUTARY_COMMON_JOB_JOB_BERT_VALIDATION_H_

#include "absl/status/status.h"
#include "proto/job.pb.h"

namespace tributary {

// Returns InvalidArgument, naming the field, if a field of model.bert is
// invalid, or if model.bert cannot be trained with the job's data.
absl::Status ValidateBert(const JobSpec& job);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_JOB_JOB_BERT_VALIDATION_H_
