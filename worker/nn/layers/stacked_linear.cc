#include "worker/nn/layers/stacked_linear.h"

namespace tributary {

LayerSpec StackedLinear::Spec() const {
  LayerSpec spec;
  spec.inputs = {options_.rows * options_.inputs};
  spec.output = options_.rows * count() * options_.outputs;
  for (const std::string& name : options_.names) {
    spec.parameters.push_back({name + ".weight",
                               {options_.outputs, options_.inputs},
                               ParameterGroup::kDecay,
                               options_.weight_initializer});
  }
  for (const std::string& name : options_.names) {
    spec.parameters.push_back({name + ".bias",
                               {options_.outputs},
                               ParameterGroup::kNoDecay,
                               options_.bias_initializer});
  }
  spec.product_weight = true;
  spec.product_parameters = static_cast<int>(count());
  spec.backward_reads_input = true;
  spec.accumulates = true;
  return spec;
}

void StackedLinear::Forward(const LayerCall& call,
                            const LayerTensors& tensors) const {
  LinearOps::ForwardArguments args;
  args.shape = ShapeOf(call);
  args.x = tensors.inputs[0];
  args.weight = tensors.product_weight;
  args.bias = tensors.weights[count()];
  args.y = tensors.output;
  call.device->ops().linear->Forward(args);
}

void StackedLinear::Backward(const LayerCall& call,
                             const LayerTensors& tensors) const {
  LinearOps::BackwardWeightArguments args;
  args.shape = ShapeOf(call);
  args.x = tensors.inputs[0];
  args.dy = tensors.output_gradient;
  args.dweight = tensors.weight_gradients[0];
  args.dbias = tensors.weight_gradients[count()];
  call.device->ops().linear->BackwardWeight(args);
  if (tensors.input_gradients[0] == nullptr) return;
  LinearOps::BackwardInputArguments input;
  input.shape = args.shape;
  input.dy = tensors.output_gradient;
  input.weight = tensors.product_weight;
  input.accumulate = tensors.accumulate[0];
  input.dx = tensors.input_gradients[0];
  call.device->ops().linear->BackwardInput(input);
}

LinearShape StackedLinear::ShapeOf(const LayerCall& call) const {
  return {call.samples * options_.rows, options_.inputs,
          count() * options_.outputs};
}

}  // namespace tributary
