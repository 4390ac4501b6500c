// Checks of model.bert.
#ifndef TRIBUTARY_COMMON_JOB_JOB_BERT_VALIDATION_H_
#define TRIBUTARY_COMMON_JOB_JOB_BERT_VALIDATION_H_

#include "absl/status/status.h"
#include "proto/job.pb.h"

namespace tributary {

// Returns InvalidArgument, naming the field, if a field of model.bert is
// invalid, or if the job's data do not suit model.bert.
absl::Status ValidateBert(const JobSpec& job);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_JOB_JOB_BERT_VALIDATION_H_
