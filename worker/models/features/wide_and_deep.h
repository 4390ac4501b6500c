// Wide & Deep: a linear model and an MLP.
#ifndef TRIBUTARY_WORKER_MODELS_FEATURES_WIDE_AND_DEEP_H_
#define TRIBUTARY_WORKER_MODELS_FEATURES_WIDE_AND_DEEP_H_

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "worker/data/batch.h"
#include "worker/models/blocks/linear_stack.h"
#include "worker/models/features/feature_input.h"
#include "worker/nn/graph.h"
#include "worker/nn/layers/loss.h"

namespace tributary {

// Builds the model that WideAndDeepSpec describes. Parameters: if the data have
// numbers, "linear.weight" and "linear.bias"; "hidden.<i>.weight",
// "hidden.<i>.bias", "output.weight" and "output.bias". Returns
// InvalidArgument, naming the field, if the model does not fit the data.
absl::StatusOr<Graph> BuildWideAndDeep(const ModelSpec& spec,
                                       const DataInfo& info);

// Adds the layers of BuildWideAndDeep to a graph of `input`: the output is the
// sum of the elements of `terms`, of the linear function of the numbers and of
// the MLP `stack`. Also adds the loss.
void AddWideAndDeep(const FeatureInput& input, const LinearStack& stack,
                    const LossSpec& loss, ValueId terms, Graph* graph);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_MODELS_FEATURES_WIDE_AND_DEEP_H_
