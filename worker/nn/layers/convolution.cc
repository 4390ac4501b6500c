#include "worker/nn/layers/convolution.h"

namespace tributary {

int64_t Convolution::OutputSide(int64_t side, int64_t kernel, int64_t stride,
                                int64_t padding) {
  const int64_t room = side + 2 * padding - kernel;
  return room < 0 ? 0 : room / stride + 1;
}

Convolution::Options Convolution::FanInOptions(const ConvolutionShape& shape) {
  Options options;
  options.shape = shape;
  options.weight_initializer =
      Initializer::FanIn(shape.in_channels * shape.kernel * shape.kernel);
  options.bias_initializer = options.weight_initializer;
  return options;
}

Convolution::Options Convolution::FanOutOptions(const ConvolutionShape& shape) {
  Options options;
  options.shape = shape;
  options.bias = false;
  options.weight_initializer =
      Initializer::FanOut(shape.out_channels * shape.kernel * shape.kernel);
  return options;
}

LayerSpec Convolution::Spec() const {
  const ConvolutionShape& s = options_.shape;
  LayerSpec spec;
  spec.inputs = {s.in_channels * s.in_height * s.in_width};
  spec.output = s.out_channels * s.out_height * s.out_width;
  spec.parameters = {{"weight",
                      {s.out_channels, s.in_channels, s.kernel, s.kernel},
                      ParameterGroup::kDecay,
                      options_.weight_initializer}};
  if (options_.bias) {
    spec.parameters.push_back({"bias",
                               {s.out_channels},
                               ParameterGroup::kNoDecay,
                               options_.bias_initializer});
  }
  spec.product_weight = true;
  spec.backward_reads_input = true;
  spec.separates_weights = true;
  return spec;
}

void Convolution::Forward(const LayerCall& call,
                          const LayerTensors& tensors) const {
  ConvolutionOps::ForwardArguments args;
  args.shape = ShapeOf(call);
  args.x = tensors.inputs[0];
  args.weight = tensors.product_weight;
  args.bias = tensors.weights[1];
  args.y = tensors.output;
  call.device->ops().convolution->Forward(args);
}

void Convolution::Backward(const LayerCall& call,
                           const LayerTensors& tensors) const {
  if (tensors.weight_gradients[0] != nullptr) {
    ConvolutionOps::BackwardWeightArguments weight;
    weight.shape = ShapeOf(call);
    weight.x = tensors.inputs[0];
    weight.dy = tensors.output_gradient;
    weight.dweight = tensors.weight_gradients[0];
    weight.dbias = tensors.weight_gradients[1];
    call.device->ops().convolution->BackwardWeight(weight);
  }
  if (tensors.input_gradients[0] == nullptr) return;
  ConvolutionOps::BackwardInputArguments input;
  input.shape = ShapeOf(call);
  input.dy = tensors.output_gradient;
  input.weight = tensors.product_weight;
  input.dx = tensors.input_gradients[0];
  call.device->ops().convolution->BackwardInput(input);
}

ConvolutionShape Convolution::ShapeOf(const LayerCall& call) const {
  ConvolutionShape shape = options_.shape;
  shape.batch = call.samples;
  return shape;
}

}  // namespace tributary
