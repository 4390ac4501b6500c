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

// Maximum size of a dimension of a layer that a field may set. The product of
// two such sizes and the size of a batch does not overflow int64_t.
inline constexpr int64_t kMaxLayerSize = int64_t{1} << 20;

absl::Status InvalidField(absl::string_view field, absl::string_view what);
// Checks that value is in [low, high].
absl::Status CheckRange(absl::string_view field, int64_t value, int64_t low,
                        int64_t high);
// Checks that rate is in [0, 1).
absl::Status CheckDropout(absl::string_view field, double rate);
// Checks that there is a layer for the activation.
absl::Status CheckActivation(absl::string_view field, Activation activation);

// Returns the loss for one prediction per sample. Its width is the number of
// classes, or 1 for regression. Checks that model.loss matches the data.
absl::StatusOr<LossSpec> LossFor(const ModelSpec& spec, const DataInfo& info);

// Adds the activation, which must have been validated.
ValueId AddActivation(absl::string_view name, Activation activation,
                      ValueId value, Graph* graph);

// Returns "images", "rows of numbers" or "text".
absl::string_view KindName(DataInfo::Kind kind);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_MODELS_SPEC_CHECKS_H_
