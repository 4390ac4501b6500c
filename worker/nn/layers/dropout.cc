#include "worker/nn/layers/dropout.h"

namespace tributary {

LayerSpec Dropout::Spec() const {
  LayerSpec spec;
  spec.inputs = {size_};
  spec.output = size_;
  spec.in_place_input = 0;
  spec.gradient_in_place = true;
  spec.identity_in_evaluation = true;
  return spec;
}

void Dropout::Forward(const LayerCall& call,
                      const LayerTensors& tensors) const {
  call.device->Dropout(call.samples * size_, call.stream, rate_,
                       tensors.inputs[0], tensors.output);
}

void Dropout::Backward(const LayerCall& call,
                       const LayerTensors& tensors) const {
  if (tensors.input_gradients[0] == nullptr) return;
  call.device->Dropout(call.samples * size_, call.stream, rate_,
                       tensors.output_gradient, tensors.input_gradients[0]);
}

}  // namespace tributary
