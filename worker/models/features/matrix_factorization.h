// Matrix factorization, and two towers.
#ifndef TRIBUTARY_WORKER_MODELS_FEATURES_MATRIX_FACTORIZATION_H_
#define TRIBUTARY_WORKER_MODELS_FEATURES_MATRIX_FACTORIZATION_H_

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "worker/data/batch.h"
#include "worker/nn/graph.h"

namespace tributary {

// Builds the model that MatrixFactorizationSpec describes. Parameters:
// "user.<i>.weight", "user.<i>.bias", "item.<i>.weight" and "item.<i>.bias",
// the layers of the two towers, and "output.bias". Returns InvalidArgument,
// naming the field, if the model does not fit the data.
absl::StatusOr<Graph> BuildMatrixFactorization(const ModelSpec& spec,
                                               const DataInfo& info);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_MODELS_FEATURES_MATRIX_FACTORIZATION_H_
