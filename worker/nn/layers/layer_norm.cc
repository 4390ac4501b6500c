#include "worker/nn/layers/layer_norm.h"

namespace tributary {

LayerSpec LayerNorm::Spec() const {
  LayerSpec spec;
  spec.inputs = {rows_ * width_};
  spec.output = rows_ * width_;
  spec.parameters = {{"weight", {width_}, NO_DECAY, Initializer::Constant(1)}};
  if (bias_) {
    spec.parameters.push_back(
        {"bias", {width_}, NO_DECAY, Initializer::Constant(0)});
  }
  spec.backward_reads_input = true;
  spec.accumulates = true;
  return spec;
}

int64_t LayerNorm::SavedElements(const Device& /*device*/,
                                 int64_t samples) const {
  return 2 * samples * rows_;
}

void LayerNorm::Forward(const LayerCall& call,
                        const LayerTensors& tensors) const {
  const int64_t rows = call.samples * rows_;
  call.device->LayerNormForward(
      rows, width_, tensors.inputs[0], tensors.weights[0], tensors.weights[1],
      tensors.output, tensors.saved, tensors.saved + rows);
}

void LayerNorm::Backward(const LayerCall& call,
                         const LayerTensors& tensors) const {
  const int64_t rows = call.samples * rows_;
  call.device->LayerNormBackward(
      rows, width_, tensors.inputs[0], tensors.weights[0], tensors.saved,
      tensors.saved + rows, tensors.output_gradient, tensors.accumulate[0],
      tensors.input_gradients[0], tensors.weight_gradients[0],
      tensors.weight_gradients[1]);
}

}  // namespace tributary
