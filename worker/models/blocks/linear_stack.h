// Linear layers with activations and dropout.
#ifndef TRIBUTARY_WORKER_MODELS_BLOCKS_LINEAR_STACK_H_
#define TRIBUTARY_WORKER_MODELS_BLOCKS_LINEAR_STACK_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/job.pb.h"
#include "worker/nn/graph.h"
#include "worker/nn/layers/loss.h"

namespace tributary {

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

#endif  // TRIBUTARY_WORKER_MODELS_BLOCKS_LINEAR_STACK_H_
