#include "worker/nn/layers/sequence_embedding.h"

namespace tributary {

SequenceInput SequenceInput::At(const Real* input, int64_t samples,
                                int64_t context) {
  const auto* const tokens = reinterpret_cast<const int32_t*>(input);
  return {tokens, tokens + samples * context, tokens + 2 * samples * context};
}

LayerSpec SequenceEmbedding::Spec() const {
  LayerSpec spec;
  spec.inputs = {SequenceInput::Elements(options_.context)};
  spec.output = options_.context * options_.width;
  const auto add = [&](const char* name, int64_t rows) {
    spec.parameters.push_back({name,
                               {rows, options_.width},
                               ParameterGroup::kDecay,
                               options_.initializer});
  };
  add("word_embeddings.weight", options_.vocabulary);
  add("position_embeddings.weight", options_.positions);
  add("token_type_embeddings.weight", options_.types);
  spec.tokens = true;
  spec.backward_reads_input = true;
  spec.accumulates_weight = true;
  return spec;
}

void SequenceEmbedding::Forward(const LayerCall& call,
                                const LayerTensors& tensors) const {
  const SequenceInput input =
      SequenceInput::At(tensors.inputs[0], call.samples, options_.context);
  EmbeddingOps::ForwardArguments args;
  args.batch = call.samples;
  args.time = options_.context;
  args.width = options_.width;
  args.tokens = input.tokens;
  args.token_table = tensors.weights[0];
  args.position_table = tensors.weights[1];
  args.y = tensors.output;
  call.device->ops().embedding->Forward(args);
  args.tokens = input.types;
  args.token_table = tensors.weights[2];
  args.position_table = nullptr;
  args.accumulate = true;
  call.device->ops().embedding->Forward(args);
}

void SequenceEmbedding::Backward(const LayerCall& call,
                                 const LayerTensors& tensors) const {
  const SequenceInput input =
      SequenceInput::At(tensors.inputs[0], call.samples, options_.context);
  EmbeddingOps::BackwardArguments args;
  args.batch = call.samples;
  args.time = options_.context;
  args.width = options_.width;
  args.vocabulary = options_.vocabulary;
  args.tokens = input.tokens;
  args.dy = tensors.output_gradient;
  args.accumulate = tensors.accumulate_weight;
  args.dtoken_table = tensors.weight_gradients[0];
  args.dposition_table = tensors.weight_gradients[1];
  call.device->ops().embedding->Backward(args);
  // No sample has the remaining positions.
  const int64_t used = options_.context * options_.width;
  const int64_t unused = options_.positions * options_.width - used;
  if (unused > 0) {
    call.device->Zero(tensors.weight_gradients[1] + used, unused);
  }
  args.vocabulary = options_.types;
  args.tokens = input.types;
  args.accumulate = false;
  args.dtoken_table = tensors.weight_gradients[2];
  args.dposition_table = nullptr;
  call.device->ops().embedding->Backward(args);
}

}  // namespace tributary
