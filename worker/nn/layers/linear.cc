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
                      DECAY,
                      options_.weight_initializer,
                      options_.padding * options_.inputs}};
  if (options_.bias) {
    spec.parameters.push_back(
        {"bias", {options_.outputs}, NO_DECAY, options_.bias_initializer});
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
  spec.fuses_gelu = true;
  return spec;
}

void Linear::Forward(const LayerCall& call, const LayerTensors& tensors) const {
  if (tensors.gelu_output != nullptr) {
    call.device->LinearGeluForward(ShapeOf(call), tensors.inputs[0],
                                   tensors.product_weight, BiasOf(tensors),
                                   tensors.output, tensors.gelu_output);
    return;
  }
  call.device->LinearForward(ShapeOf(call), tensors.inputs[0],
                             tensors.product_weight, BiasOf(tensors),
                             tensors.output);
}

void Linear::Backward(const LayerCall& call,
                      const LayerTensors& tensors) const {
  const LinearShape shape = ShapeOf(call);
  call.device->LinearBackwardWeight(
      shape, tensors.inputs[0], tensors.output_gradient,
      tensors.accumulate_weight, tensors.weight_gradients[0],
      tensors.weight_gradients[1]);
  if (tensors.input_gradients[0] == nullptr) return;
  if (tensors.gelu_input != nullptr) {
    call.device->LinearGeluBackwardInput(
        shape, tensors.output_gradient, tensors.product_weight,
        tensors.gelu_input, tensors.input_gradients[0]);
    return;
  }
  call.device->LinearBackwardInput(
      shape, tensors.output_gradient, tensors.product_weight,
      tensors.accumulate[0], tensors.input_gradients[0]);
}

LinearShape Linear::ShapeOf(const LayerCall& call) const {
  return {call.samples * options_.rows, options_.inputs,
          options_.outputs + options_.padding};
}

const float* Linear::BiasOf(const LayerTensors& tensors) const {
  return options_.padding > 0 ? tensors.constants : tensors.weights[1];
}

}  // namespace tributary
