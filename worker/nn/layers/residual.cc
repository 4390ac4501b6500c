#include "worker/nn/layers/residual.h"

namespace tributary {

LayerSpec Residual::Spec() const {
  LayerSpec spec;
  spec.inputs = {size_, size_};
  spec.output = size_;
  spec.in_place_input = 1;
  spec.passes_gradient = true;
  spec.accumulates = true;
  spec.is_sum = true;
  return spec;
}

void Residual::Forward(const LayerCall& call,
                       const LayerTensors& tensors) const {
  const int64_t count = call.samples * size_;
  ElementwiseOps& ops = *call.device->ops().elementwise;
  if (tensors.output != tensors.inputs[1]) {
    ops.Copy({count, tensors.inputs[1], tensors.output});
  }
  ops.Add({count, tensors.inputs[0], tensors.output});
}

void Residual::Backward(const LayerCall& call,
                        const LayerTensors& tensors) const {
  const int64_t count = call.samples * size_;
  ElementwiseOps& ops = *call.device->ops().elementwise;
  for (int i = 0; i < 2; ++i) {
    Real* gradient = tensors.input_gradients[i];
    if (gradient == nullptr || gradient == tensors.output_gradient) continue;
    if (tensors.accumulate[i]) {
      ops.Add({count, tensors.output_gradient, gradient});
    } else {
      ops.Copy({count, tensors.output_gradient, gradient});
    }
  }
}

}  // namespace tributary
