// Validation of job fields shared by several models. All errors are
// InvalidArgument and begin with the field's path.
#ifndef TRIBUTARY_WORKER_MODELS_SPEC_CHECKS_H_
#define TRIBUTARY_WORKER_MODELS_SPEC_CHECKS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/job.pb.h"
#include "worker/data/batch.h"
#include "worker/nn/graph.h"
#include "worker/nn/layers/loss.h"

namespace tributary {

// Maximum value of a field that sets a dimension of a layer. Two such sizes
// multiplied by 2^22 samples give 2^62, which int64_t can represent.
inline constexpr int64_t kMaxLayerSize = int64_t{1} << 20;

// Returns InvalidArgument with a message such as "model.gpt.layers: must be
// positive", in which `field` precedes the colon and `what` follows it.
absl::Status InvalidField(absl::string_view field, absl::string_view what);
// Returns InvalidArgument unless `value` is in [low, high].
absl::Status CheckRange(absl::string_view field, int64_t value, int64_t low,
                        int64_t high);
// Returns InvalidArgument unless `rate` is in [0, 1).
absl::Status CheckDropout(absl::string_view field, double rate);
// Returns InvalidArgument if there is no layer for the activation.
absl::Status CheckActivation(absl::string_view field, Activation activation);

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

#endif  // TRIBUTARY_WORKER_MODELS_SPEC_CHECKS_H_
