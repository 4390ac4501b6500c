#include "worker/nn/layers/attention.h"

#include "worker/nn/layers/sequence_embedding.h"

namespace tributary {

LayerSpec Attention::Spec() const {
  LayerSpec spec;
  spec.output = options_.time * options_.heads * options_.head_size;
  spec.inputs = {3 * spec.output};
  if (!options_.causal) {
    spec.inputs.push_back(SequenceInput::Elements(options_.time));
  }
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
  args.lengths = LengthsOf(call, tensors);
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
  args.lengths = LengthsOf(call, tensors);
  args.dqkv = tensors.input_gradients[0];
  call.device->ops().attention->Backward(args);
}

AttentionShape Attention::ShapeOf(int64_t samples) const {
  return {samples, options_.time, options_.heads, options_.head_size,
          options_.causal};
}

const int32_t* Attention::LengthsOf(const LayerCall& call,
                                    const LayerTensors& tensors) const {
  if (options_.causal) return nullptr;
  return SequenceInput::At(tensors.inputs[1], call.samples, options_.time)
      .lengths;
}

}  // namespace tributary
