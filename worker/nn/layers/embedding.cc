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
                      ParameterGroup::kDecay,
                      options_.initializer,
                      options_.padding * options_.width},
                     {"wpe.weight",
                      {options_.context, options_.width},
                      ParameterGroup::kDecay,
                      options_.initializer}};
  spec.tokens = true;
  spec.backward_reads_input = true;
  spec.accumulates_weight = true;
  return spec;
}

void Embedding::Forward(const LayerCall& call,
                        const LayerTensors& tensors) const {
  EmbeddingOps::ForwardArguments args;
  args.batch = call.samples;
  args.time = options_.context;
  args.width = options_.width;
  args.tokens = Tokens(tensors);
  args.token_table = tensors.weights[0];
  args.position_table = tensors.weights[1];
  args.y = tensors.output;
  call.device->ops().embedding->Forward(args);
}

void Embedding::Backward(const LayerCall& call,
                         const LayerTensors& tensors) const {
  EmbeddingOps::BackwardArguments args;
  args.batch = call.samples;
  args.time = options_.context;
  args.width = options_.width;
  args.vocabulary = options_.vocabulary;
  args.tokens = Tokens(tensors);
  args.dy = tensors.output_gradient;
  args.accumulate = tensors.accumulate_weight;
  args.dtoken_table = tensors.weight_gradients[0];
  args.dposition_table = tensors.weight_gradients[1];
  call.device->ops().embedding->Backward(args);
}

}  // namespace tributary
