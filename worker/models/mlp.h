// Multilayer perceptron.
#ifndef TRIBUTARY_WORKER_MODELS_MLP_H_
#define TRIBUTARY_WORKER_MODELS_MLP_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
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

// Describes the hidden layers of BuildMlp and BuildCnn. BuildCnn sets
// `dropout_first`, which applies dropout to the input of each linear layer
// instead of the output of each hidden layer. All fields must have been
// validated.
struct LinearStack {
  absl::Span<const int64_t> hidden;
  Activation activation = RELU;
  float dropout = 0;
  bool dropout_first = false;
};
// Adds the hidden layers, which are named "<name>.<i>", to `graph`. `value` is
// the input of the first layer. Returns the output of the last one.
ValueId AddHiddenLayers(absl::string_view name, const LinearStack& stack,
                        ValueId value, Graph* graph);
// Adds a linear layer with the initial values of torch.nn.Linear.
ValueId AddLinear(absl::string_view name, int64_t outputs, ValueId value,
                  Graph* graph);
// Adds the hidden layers, the output layer and the loss to `graph`. `value` is
// the input of the first layer.
void AddLinearStack(const LinearStack& stack, const LossSpec& loss,
                    ValueId value, Graph* graph);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_MODELS_MLP_H_
