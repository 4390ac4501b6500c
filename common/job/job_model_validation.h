// Validates the `model` of a job.
#ifndef TRIBUTARY_COMMON_JOB_JOB_MODEL_VALIDATION_H_
#define TRIBUTARY_COMMON_JOB_JOB_MODEL_VALIDATION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/job.pb.h"

namespace tributary {

// Returns InvalidArgument, naming the field, if a field of `model` is invalid.
absl::Status ValidateModel(const ModelSpec& model);

// The features of JobSpec.sparse.
struct FeatureList {
  std::vector<std::string> names;
  std::vector<int64_t> dims;  // Numbers of elements of their vectors.
};
// Returns InvalidArgument, naming the field, if `model` cannot read these
// features, or reads none although there are some.
absl::Status ValidateFeatures(const ModelSpec& model,
                              const FeatureList& features);
// Like ValidateFeatures, for the features of the job. Accepts a job whose
// features name tables that do not exist.
absl::Status ValidateModelFeatures(const JobSpec& job);

// Returns InvalidArgument, naming the field, if the job's model does not fit
// its batch. `job` must have its defaults set.
absl::Status ValidateModelMemory(const JobSpec& job);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_JOB_JOB_MODEL_VALIDATION_H_
