#include "worker/nn/layers/linear.h"

namespace tributary {

Linear::Options Linear::FanInOptions(int64_t inputs, int64_t outputs) {
  Options options;
  options.inputs = inputs;
  options.outputs = outputs;
  options.weight_initializer = Initializer::FanIn(inputs);
  options.bias_initializer = Initializer::FanIn(inputs);
  return options;
}

LayerSpec Linear::Spec() const {
  LayerSpec spec;
  spec.inputs = {options_.rows * options_.inputs};
  spec.output = options_.rows * (options_.outputs + options_.padding);
  spec.parameters = {{"weight",
                      {options_.outputs, options_.inputs},
                      ParameterGroup::kDecay,
                      options_.weight_initializer,
                      options_.padding * options_.inputs}};
  if (options_.bias) {
    spec.parameters.push_back({"bias",
                               {options_.outputs},
                               ParameterGroup::kNoDecay,
                               options_.bias_initializer});
  }
  if (options_.padding > 0) {
    // The weights of the padding are zero, so this bias decides its logits.
    spec.constants.assign(options_.outputs, 0.0f);
    spec.constants.resize(options_.outputs + options_.padding, kPaddingLogit);
  }
  spec.product_weight = true;
  spec.backward_reads_input = true;
  spec.accumulates = true;
  spec.accumulates_weight = true;
  spec.separates_weights = true;
  spec.fuses_gelu = true;
  return spec;
}

void Linear::Forward(const LayerCall& call, const LayerTensors& tensors) const {
  if (tensors.gelu_output != nullptr) return ForwardWithGelu(call, tensors);
  LinearOps::ForwardArguments args;
  args.shape = ShapeOf(call);
  args.x = tensors.inputs[0];
  args.weight = tensors.product_weight;
  args.bias = BiasOf(tensors);
  args.y = tensors.output;
  call.device->ops().linear->Forward(args);
}

void Linear::ForwardWithGelu(const LayerCall& call,
                             const LayerTensors& tensors) const {
  LinearOps::GeluForwardArguments args;
  args.shape = ShapeOf(call);
  args.x = tensors.inputs[0];
  args.weight = tensors.product_weight;
  args.bias = BiasOf(tensors);
  args.z = tensors.output;
  args.y = tensors.gelu_output;
  call.device->ops().linear->GeluForward(args);
}

void Linear::Backward(const LayerCall& call,
                      const LayerTensors& tensors) const {
  if (tensors.weight_gradients[0] != nullptr) {
    LinearOps::BackwardWeightArguments args;
    args.shape = ShapeOf(call);
    args.x = tensors.inputs[0];
    args.dy = tensors.output_gradient;
    args.accumulate = tensors.accumulate_weight;
    args.dweight = tensors.weight_gradients[0];
    args.dbias = tensors.weight_gradients[1];
    call.device->ops().linear->BackwardWeight(args);
  }
  if (tensors.input_gradients[0] != nullptr) BackwardInput(call, tensors);
}

void Linear::BackwardInput(const LayerCall& call,
                           const LayerTensors& tensors) const {
  if (tensors.gelu_input != nullptr) {
    LinearOps::GeluBackwardInputArguments args;
    args.shape = ShapeOf(call);
    args.dy = tensors.output_gradient;
    args.weight = tensors.product_weight;
    args.z = tensors.gelu_input;
    args.dz = tensors.input_gradients[0];
    call.device->ops().linear->GeluBackwardInput(args);
    return;
  }
  LinearOps::BackwardInputArguments args;
  args.shape = ShapeOf(call);
  args.dy = tensors.output_gradient;
  args.weight = tensors.product_weight;
  args.accumulate = tensors.accumulate[0];
  args.dx = tensors.input_gradients[0];
  call.device->ops().linear->BackwardInput(args);
}

LinearShape Linear::ShapeOf(const LayerCall& call) const {
  return {call.samples * options_.rows, options_.inputs,
          options_.outputs + options_.padding};
}

const float* Linear::BiasOf(const LayerTensors& tensors) const {
  return options_.padding > 0 ? tensors.constants : tensors.weights[1];
}

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
  spec.separates_weights = true;
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
  if (tensors.weight_gradients[0] != nullptr) {
    LinearOps::BackwardWeightArguments args;
    args.shape = ShapeOf(call);
    args.x = tensors.inputs[0];
    args.dy = tensors.output_gradient;
    args.dweight = tensors.weight_gradients[0];
    args.dbias = tensors.weight_gradients[count()];
    call.device->ops().linear->BackwardWeight(args);
  }
  if (tensors.input_gradients[0] == nullptr) return;
  LinearOps::BackwardInputArguments input;
  input.shape = ShapeOf(call);
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
