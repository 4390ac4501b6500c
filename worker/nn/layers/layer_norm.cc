#include "worker/nn/layers/layer_norm.h"

namespace tributary {

LayerSpec LayerNorm::Spec() const {
  LayerSpec spec;
  spec.inputs = {rows_ * width_};
  spec.output = rows_ * width_;
  spec.parameters = {
      {"weight", {width_}, ParameterGroup::kNoDecay, Initializer::Constant(1)}};
  if (bias_) {
    spec.parameters.push_back(
        {"bias", {width_}, ParameterGroup::kNoDecay, Initializer::Constant(0)});
  }
  spec.backward_reads_input = true;
  spec.accumulates = true;
  spec.fuses_sum = true;
  return spec;
}

int64_t LayerNorm::SavedElements(const Device& /*device*/,
                                 int64_t samples) const {
  return 2 * samples * rows_;
}

void LayerNorm::Forward(const LayerCall& call,
                        const LayerTensors& tensors) const {
  const int64_t rows = call.samples * rows_;
  LayerNormOps::ForwardArguments args;
  args.rows = rows;
  args.width = width_;
  args.x = tensors.sum == nullptr ? tensors.inputs[0] : tensors.addends[0];
  args.branch = tensors.addends[1];
  args.sum = tensors.sum;
  args.scale = tensors.weights[0];
  args.shift = tensors.weights[1];
  args.epsilon = epsilon_;
  args.y = tensors.output;
  args.mean = tensors.saved;
  args.inverse_deviation = tensors.saved + rows;
  call.device->ops().layer_norm->Forward(args);
}

void LayerNorm::Backward(const LayerCall& call,
                         const LayerTensors& tensors) const {
  const int64_t rows = call.samples * rows_;
  LayerNormOps::BackwardArguments args;
  args.rows = rows;
  args.width = width_;
  args.x = tensors.inputs[0];
  args.scale = tensors.weights[0];
  args.mean = tensors.saved;
  args.inverse_deviation = tensors.saved + rows;
  args.dy = tensors.output_gradient;
  args.accumulate = tensors.accumulate[0];
  args.dx = tensors.input_gradients[0];
  args.dscale = tensors.weight_gradients[0];
  args.dshift = tensors.weight_gradients[1];
  call.device->ops().layer_norm->Backward(args);
}

}  // namespace tributary
