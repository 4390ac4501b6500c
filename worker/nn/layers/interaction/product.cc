#include "worker/nn/layers/interaction/product.h"

namespace tributary {

LayerSpec Product::Spec() const {
  LayerSpec spec;
  spec.inputs = {size_, size_};
  spec.output = size_;
  spec.backward_reads_input = true;
  spec.accumulates = true;
  return spec;
}

void Product::Forward(const LayerCall& call,
                      const LayerTensors& tensors) const {
  call.device->ops().interaction->Multiply({call.samples * size_,
                                            tensors.inputs[0],
                                            tensors.inputs[1], tensors.output});
}

void Product::Backward(const LayerCall& call,
                       const LayerTensors& tensors) const {
  for (int i = 0; i < 2; ++i) {
    if (tensors.input_gradients[i] == nullptr) continue;
    InteractionOps::MultiplyArguments args;
    args.count = call.samples * size_;
    args.a = tensors.output_gradient;
    args.b = tensors.inputs[1 - i];
    args.y = tensors.input_gradients[i];
    args.accumulate = tensors.accumulate[i];
    call.device->ops().interaction->Multiply(args);
  }
}

}  // namespace tributary
