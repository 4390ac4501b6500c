// Multilayer perceptron.
#ifndef TRIBUTARY_WORKER_MODELS_MLP_H_
#define TRIBUTARY_WORKER_MODELS_MLP_H_

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "worker/data/batch.h"
#include "worker/nn/graph.h"

namespace tributary {

// Builds a multilayer perceptron: x -> [linear, activation, dropout] for each
// hidden width -> linear -> loss. The input x is an image, as one row, or a row
// of numbers. Parameters: "hidden.<i>.weight", "hidden.<i>.bias",
// "output.weight", "output.bias". Returns InvalidArgument, naming the field, if
// a field of model.mlp is invalid.
absl::StatusOr<Graph> BuildMlp(const ModelSpec& spec, const DataInfo& info);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_MODELS_MLP_H_
