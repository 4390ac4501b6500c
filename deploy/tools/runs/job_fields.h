// The fields of a job, for comparing runs.
#ifndef TRIBUTARY_DEPLOY_TOOLS_RUNS_JOB_FIELDS_H_
#define TRIBUTARY_DEPLOY_TOOLS_RUNS_JOB_FIELDS_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "proto/job.pb.h"

namespace tributary {

// The path of a field, such as "optimizer.adamw.learning_rate" or
// "model.mlp.hidden[0]", and its value as protobuf text.
using JobField = std::pair<std::string, std::string>;

// Maximum number of fields that FieldsOf returns. A list in a job file could
// have a million elements.
inline constexpr size_t kMaxJobFields = 1000;

// Returns the fields that are set in `job`, up to kMaxJobFields of them, in the
// order of their numbers. The value of a message is empty; its fields follow
// it.
std::vector<JobField> FieldsOf(const JobSpec& job);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_RUNS_JOB_FIELDS_H_
