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
  Apply(call, tensors.inputs[0], tensors.output);
}

void Dropout::Backward(const LayerCall& call,
                       const LayerTensors& tensors) const {
  if (tensors.input_gradients[0] == nullptr) return;
  Apply(call, tensors.output_gradient, tensors.input_gradients[0]);
}

void Dropout::Apply(const LayerCall& call, const Real* x, Real* y) const {
  ElementwiseOps::DropoutArguments args;
  args.count = call.samples * size_;
  args.stream = call.stream;
  args.rate = rate_;
  args.x = x;
  args.y = y;
  call.device->ops().elementwise->Dropout(args);
}

}  // namespace tributary
