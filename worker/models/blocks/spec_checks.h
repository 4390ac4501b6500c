// What several models do with the fields of a job.
#ifndef TRIBUTARY_WORKER_MODELS_BLOCKS_SPEC_CHECKS_H_
#define TRIBUTARY_WORKER_MODELS_BLOCKS_SPEC_CHECKS_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/job.pb.h"
#include "worker/data/batch.h"
#include "worker/nn/graph.h"
#include "worker/nn/layers/loss.h"

namespace tributary {

// Returns the loss of a model that makes one prediction per sample. The
// prediction has one element for each class, or one element for regression.
// Returns InvalidArgument if model.loss does not match the data.
absl::StatusOr<LossSpec> LossFor(const ModelSpec& spec, const DataInfo& info);

// Adds a layer called `name` that applies `activation`, which must have been
// validated, to `value`. Returns the output of the layer.
ValueId AddActivation(absl::string_view name, Activation activation,
                      ValueId value, Graph* graph);

// Returns the kind's name for users, such as "images" or "rows of numbers".
absl::string_view KindName(DataInfo::Kind kind);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_MODELS_BLOCKS_SPEC_CHECKS_H_
