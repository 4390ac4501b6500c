#include "worker/nn/layers/interaction/block_sum.h"

namespace tributary {

LayerSpec BlockSum::Spec() const {
  LayerSpec spec;
  spec.inputs = {options_.count * options_.width};
  spec.output = options_.width;
  if (options_.bias) {
    spec.parameters = {
        {"bias", {options_.width}, ParameterGroup::kNoDecay, Initializer()}};
  }
  spec.accumulates = true;
  return spec;
}

void BlockSum::Forward(const LayerCall& call,
                       const LayerTensors& tensors) const {
  InteractionOps::SumBlocksArguments args;
  args.rows = call.samples;
  args.count = options_.count;
  args.width = options_.width;
  args.x = tensors.inputs[0];
  args.bias = options_.bias ? tensors.weights[0] : nullptr;
  args.y = tensors.output;
  call.device->ops().interaction->SumBlocks(args);
}

void BlockSum::Backward(const LayerCall& call,
                        const LayerTensors& tensors) const {
  InteractionOps& ops = *call.device->ops().interaction;
  if (options_.bias) {
    ops.BiasGradient({call.samples, options_.width, tensors.output_gradient,
                      tensors.weight_gradients[0]});
  }
  if (tensors.input_gradients[0] == nullptr) return;
  InteractionOps::CopyBlocksArguments args;
  args.rows = call.samples;
  args.count = options_.count;
  args.width = options_.width;
  args.x = tensors.output_gradient;
  args.from = {0, options_.width, /*stride=*/0};
  args.y = tensors.input_gradients[0];
  args.to = {0, options_.count * options_.width, options_.width};
  args.accumulate = tensors.accumulate[0];
  ops.CopyBlocks(args);
}

}  // namespace tributary
