// Validates model.bert.
#ifndef TRIBUTARY_COMMON_JOB_JOB_BERT_VALIDATION_H_
#define TRIBUTARY_COMMON_JOB_JOB_BERT_VALIDATION_H_

#include "absl/status/status.h"
#include "proto/job.pb.h"

namespace tributary {

// Returns InvalidArgument, naming the field, if a field of model.bert is
// invalid.
absl::Status ValidateBert(const BertSpec& bert);

// Returns InvalidArgument, naming the field, if the job's model.bert cannot be
// trained with its data.
absl::Status ValidateBertData(const JobSpec& job);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_JOB_JOB_BERT_VALIDATION_H_
