#include "worker/nn/layers/embedding.h"

namespace tributary {
namespace {

const int32_t* Tokens(const LayerTensors& tensors) {
  return reinterpret_cast<const int32_t*>(tensors.inputs[0]);
}

}  // namespace

LayerSpec Embedding::Spec() const {
  LayerSpec spec;
  spec.inputs = {options_.context};
  spec.output = options_.context * options_.width;
  spec.parameters = {{"wte.weight",
                      {options_.vocabulary, options_.width},
                      DECAY,
                      options_.initializer,
                      options_.padding * options_.width},
                     {"wpe.weight",
                      {options_.context, options_.width},
                      DECAY,
                      options_.initializer}};
  spec.tokens = true;
  spec.backward_reads_input = true;
  spec.accumulates_weight = true;
  return spec;
}

void Embedding::Forward(const LayerCall& call,
                        const LayerTensors& tensors) const {
  call.device->EmbeddingForward(call.samples, options_.context, options_.width,
                                Tokens(tensors), tensors.weights[0],
                                tensors.weights[1], tensors.output);
}

void Embedding::Backward(const LayerCall& call,
                         const LayerTensors& tensors) const {
  call.device->EmbeddingBackward(
      call.samples, options_.context, options_.width, options_.vocabulary,
      Tokens(tensors), tensors.output_gradient, tensors.accumulate_weight,
      tensors.weight_gradients[0], tensors.weight_gradients[1]);
}

}  // namespace tributary
