// DeepFM: a factorization machine and an MLP.
#ifndef TRIBUTARY_WORKER_MODELS_FEATURES_DEEPFM_H_
#define TRIBUTARY_WORKER_MODELS_FEATURES_DEEPFM_H_

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "worker/data/batch.h"
#include "worker/nn/graph.h"

namespace tributary {

// Builds the model that DeepfmSpec describes. The parameters have the names of
// BuildWideAndDeep. Returns InvalidArgument, naming the field, if the model
// does not fit the data.
absl::StatusOr<Graph> BuildDeepfm(const ModelSpec& spec, const DataInfo& info);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_MODELS_FEATURES_DEEPFM_H_
