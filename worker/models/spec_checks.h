// Checks of job fields that several models share. All errors are
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

// Largest size that a field may give a layer. Products of two, and of these
// with a batch, cannot overflow.
inline constexpr int64_t kMaxLayerSize = int64_t{1} << 20;

absl::Status InvalidField(absl::string_view field, absl::string_view what);
// value is in [low, high].
absl::Status CheckRange(absl::string_view field, int64_t value, int64_t low,
                        int64_t high);
// rate is in [0, 1).
absl::Status CheckDropout(absl::string_view field, double rate);
// activation is RELU or GELU.
absl::Status CheckActivation(absl::string_view field, Activation activation);

// The loss for one prediction per sample, with its width: classes, or one
// number. Checks that model.loss suits the data.
absl::StatusOr<LossSpec> LossFor(const ModelSpec& spec, const DataInfo& info);

// Adds the activation, which must have been checked.
ValueId AddActivation(absl::string_view name, Activation activation,
                      ValueId value, Graph* graph);

// "images", "rows of numbers" or "text".
absl::string_view KindName(DataInfo::Kind kind);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_MODELS_SPEC_CHECKS_H_
