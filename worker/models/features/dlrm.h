// Deep learning recommendation model.
#ifndef TRIBUTARY_WORKER_MODELS_FEATURES_DLRM_H_
#define TRIBUTARY_WORKER_MODELS_FEATURES_DLRM_H_

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "worker/data/batch.h"
#include "worker/nn/graph.h"

namespace tributary {

// Builds the model that DlrmSpec describes. Parameters: "bottom.<i>.weight",
// "bottom.<i>.bias", "top.<i>.weight" and "top.<i>.bias"; the last bottom layer
// has the width of the vectors, and the last top layer the width 1. Returns
// InvalidArgument, naming the field, if the model does not fit the data.
absl::StatusOr<Graph> BuildDlrm(const ModelSpec& spec, const DataInfo& info);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_MODELS_FEATURES_DLRM_H_
