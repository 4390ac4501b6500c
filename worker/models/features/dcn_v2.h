// DCN-V2: a cross network and an MLP.
#ifndef TRIBUTARY_WORKER_MODELS_FEATURES_DCN_V2_H_
#define TRIBUTARY_WORKER_MODELS_FEATURES_DCN_V2_H_

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "worker/data/batch.h"
#include "worker/nn/graph.h"

namespace tributary {

// Builds the model that DcnV2Spec describes. Parameters: "cross.<i>.weight" and
// "cross.<i>.bias" or, with a rank, "cross.<i>.v.weight", "cross.<i>.u.weight"
// and "cross.<i>.u.bias", where W = U V; "hidden.<i>.weight",
// "hidden.<i>.bias", "output.weight" and "output.bias". Returns
// InvalidArgument, naming the field, if the model does not fit the data.
absl::StatusOr<Graph> BuildDcnV2(const ModelSpec& spec, const DataInfo& info);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_MODELS_FEATURES_DCN_V2_H_
