#include "worker/nn/layers/activation.h"

namespace tributary {

LayerSpec Relu::Spec() const {
  LayerSpec spec;
  spec.inputs = {size_};
  spec.output = size_;
  spec.backward_reads_output = true;
  spec.in_place_input = 0;
  spec.gradient_in_place = true;
  return spec;
}

void Relu::Forward(const LayerCall& call, const LayerTensors& tensors) const {
  call.device->ops().elementwise->ReluForward(
      {call.samples * size_, tensors.inputs[0], tensors.output});
}

void Relu::Backward(const LayerCall& call, const LayerTensors& tensors) const {
  if (tensors.input_gradients[0] == nullptr) return;
  call.device->ops().elementwise->ReluBackward(
      {call.samples * size_, /*at=*/tensors.output, tensors.output_gradient,
       tensors.input_gradients[0]});
}

LayerSpec Gelu::Spec() const {
  LayerSpec spec;
  spec.inputs = {size_};
  spec.output = size_;
  spec.backward_reads_input = true;
  spec.gradient_in_place = true;
  spec.is_gelu = true;
  return spec;
}

void Gelu::Forward(const LayerCall& call, const LayerTensors& tensors) const {
  call.device->ops().elementwise->GeluForward(
      {call.samples * size_, tensors.inputs[0], tensors.output});
}

void Gelu::Backward(const LayerCall& call, const LayerTensors& tensors) const {
  if (tensors.input_gradients[0] == nullptr) return;
  call.device->ops().elementwise->GeluBackward(
      {call.samples * size_, /*at=*/tensors.inputs[0], tensors.output_gradient,
       tensors.input_gradients[0]});
}

LayerSpec ExactGelu::Spec() const {
  LayerSpec spec;
  spec.inputs = {size_};
  spec.output = size_;
  spec.backward_reads_input = true;
  spec.gradient_in_place = true;
  return spec;
}

void ExactGelu::Forward(const LayerCall& call,
                        const LayerTensors& tensors) const {
  call.device->ops().elementwise->ExactGeluForward(
      {call.samples * size_, tensors.inputs[0], tensors.output});
}

void ExactGelu::Backward(const LayerCall& call,
                         const LayerTensors& tensors) const {
  if (tensors.input_gradients[0] == nullptr) return;
  call.device->ops().elementwise->ExactGeluBackward(
      {call.samples * size_, /*at=*/tensors.inputs[0], tensors.output_gradient,
       tensors.input_gradients[0]});
}

LayerSpec Tanh::Spec() const {
  LayerSpec spec;
  spec.inputs = {size_};
  spec.output = size_;
  spec.backward_reads_output = true;
  spec.in_place_input = 0;
  spec.gradient_in_place = true;
  return spec;
}

void Tanh::Forward(const LayerCall& call, const LayerTensors& tensors) const {
  call.device->ops().elementwise->TanhForward(
      {call.samples * size_, tensors.inputs[0], tensors.output});
}

void Tanh::Backward(const LayerCall& call, const LayerTensors& tensors) const {
  if (tensors.input_gradients[0] == nullptr) return;
  call.device->ops().elementwise->TanhBackward(
      {call.samples * size_, /*at=*/tensors.output, tensors.output_gradient,
       tensors.input_gradients[0]});
}

}  // namespace tributary
