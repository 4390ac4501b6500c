#include "worker/nn/layers/attention.h"

namespace tributary {

LayerSpec Attention::Spec() const {
  LayerSpec spec;
  spec.output = options_.time * options_.heads * options_.head_size;
  spec.inputs = {3 * spec.output};
  spec.backward_reads_input = true;
  spec.backward_reads_output = true;
  return spec;
}

int64_t Attention::SavedElements(const Device& device, int64_t samples) const {
  return device.SavedAttentionSize(ShapeOf(samples));
}

void Attention::Forward(const LayerCall& call,
                        const LayerTensors& tensors) const {
  call.device->AttentionForward(
      ShapeOf(call.samples), tensors.inputs[0], call.stream,
      call.training ? options_.dropout : 0, tensors.output, tensors.saved);
}

void Attention::Backward(const LayerCall& call,
                         const LayerTensors& tensors) const {
  if (tensors.input_gradients[0] == nullptr) return;
  call.device->AttentionBackward(
      ShapeOf(call.samples), tensors.inputs[0], tensors.output, tensors.saved,
      tensors.output_gradient, call.stream,
      call.training ? options_.dropout : 0, tensors.input_gradients[0]);
}

AttentionShape Attention::ShapeOf(int64_t samples) const {
  return {samples, options_.time, options_.heads, options_.head_size};
}

}  // namespace tributary
