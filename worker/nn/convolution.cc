#include "worker/nn/convolution.h"

namespace tributary {

int64_t Convolution::OutputSide(int64_t side, int64_t kernel, int64_t stride,
                                int64_t padding) {
  const int64_t room = side + 2 * padding - kernel;
  return room < 0 ? 0 : room / stride + 1;
}

LayerSpec Convolution::Spec() const {
  const Initializer initializer =
      Initializer::FanIn(shape_.in_channels * shape_.kernel * shape_.kernel);
  LayerSpec spec;
  spec.inputs = {shape_.in_channels * shape_.in_height * shape_.in_width};
  spec.output = shape_.out_channels * shape_.out_height * shape_.out_width;
  spec.parameters = {
      {"weight",
       {shape_.out_channels, shape_.in_channels, shape_.kernel, shape_.kernel},
       DECAY,
       initializer},
      {"bias", {shape_.out_channels}, NO_DECAY, initializer}};
  spec.backward_reads_input = true;
  return spec;
}

void Convolution::Forward(const LayerCall& call,
                          const LayerTensors& tensors) const {
  call.device->ConvolutionForward(ShapeOf(call), tensors.inputs[0],
                                  tensors.weights[0], tensors.weights[1],
                                  tensors.output);
}

void Convolution::Backward(const LayerCall& call,
                           const LayerTensors& tensors) const {
  const ConvolutionShape shape = ShapeOf(call);
  call.device->ConvolutionBackwardWeight(
      shape, tensors.inputs[0], tensors.output_gradient,
      tensors.weight_gradients[0], tensors.weight_gradients[1]);
  if (tensors.input_gradients[0] == nullptr) return;
  call.device->ConvolutionBackwardInput(shape, tensors.output_gradient,
                                        tensors.weights[0],
                                        tensors.input_gradients[0]);
}

ConvolutionShape Convolution::ShapeOf(const LayerCall& call) const {
  ConvolutionShape shape = shape_;
  shape.batch = call.samples;
  return shape;
}

}  // namespace tributary
