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
  return device.ops().attention->SavedElements(ShapeOf(samples));
}

void Attention::Forward(const LayerCall& call,
                        const LayerTensors& tensors) const {
  AttentionOps::ForwardArguments args;
  args.shape = ShapeOf(call.samples);
  args.qkv = tensors.inputs[0];
  args.stream = call.stream;
  args.rate = call.training ? options_.dropout : 0;
  args.y = tensors.output;
  args.saved = tensors.saved;
  call.device->ops().attention->Forward(args);
}

void Attention::Backward(const LayerCall& call,
                         const LayerTensors& tensors) const {
  if (tensors.input_gradients[0] == nullptr) return;
  AttentionOps::BackwardArguments args;
  args.shape = ShapeOf(call.samples);
  args.qkv = tensors.inputs[0];
  args.y = tensors.output;
  args.saved = tensors.saved;
  args.dy = tensors.output_gradient;
  args.stream = call.stream;
  args.rate = call.training ? options_.dropout : 0;
  args.dqkv = tensors.input_gradients[0];
  call.device->ops().attention->Backward(args);
}

AttentionShape Attention::ShapeOf(int64_t samples) const {
  return {samples, options_.time, options_.heads, options_.head_size};
}

}  // namespace tributary
