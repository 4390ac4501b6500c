#include "worker/nn/layers/batch_norm.h"

namespace tributary {
namespace {

// Indices into LayerTensors.
enum Parameters { kScale, kShift, kRunningMean, kRunningVariance };

}  // namespace

LayerSpec BatchNorm::Spec() const {
  const std::vector<int64_t> shape = {options_.channels};
  LayerSpec spec;
  spec.output = options_.channels * options_.pixels;
  spec.inputs.assign(options_.residual ? 2 : 1, spec.output);
  spec.parameters = {
      {"weight", shape, NO_DECAY, Initializer::Constant(1)},
      {"bias", shape, NO_DECAY, Initializer::Constant(0)},
      {"running_mean", shape, STATISTICS, Initializer::Constant(0)},
      {"running_var", shape, STATISTICS, Initializer::Constant(1)}};
  spec.backward_reads_input = true;
  spec.backward_reads_output = options_.relu;
  spec.gradient_in_place = true;
  return spec;
}

int64_t BatchNorm::SavedElements(const Device& /*device*/,
                                 int64_t /*samples*/) const {
  return 2 * options_.channels;
}

void BatchNorm::Forward(const LayerCall& call,
                        const LayerTensors& tensors) const {
  if (!call.training) {
    call.device->BatchNormEvaluate(
        ShapeOf(call), tensors.inputs[0], tensors.weights[kScale],
        tensors.weights[kShift], tensors.weights[kRunningMean],
        tensors.weights[kRunningVariance], tensors.inputs[1], tensors.output);
    return;
  }
  call.device->BatchNormForward(
      ShapeOf(call), tensors.inputs[0], tensors.weights[kScale],
      tensors.weights[kShift], tensors.inputs[1], tensors.output, tensors.saved,
      tensors.saved + options_.channels);
}

void BatchNorm::Backward(const LayerCall& call,
                         const LayerTensors& tensors) const {
  const float* mean = tensors.saved;
  const float* variance = mean + options_.channels;
  call.device->BatchNormBackward(
      ShapeOf(call), tensors.inputs[0], tensors.weights[kScale], mean, variance,
      tensors.output, tensors.output_gradient, tensors.input_gradients[0],
      tensors.weight_gradients[kScale], tensors.weight_gradients[kShift],
      tensors.input_gradients[1]);
  call.device->BatchNormStatisticsGradient(
      options_.channels, call.samples * options_.pixels, call.sample_count,
      mean, variance, tensors.weights[kRunningMean],
      tensors.weights[kRunningVariance], tensors.weight_gradients[kRunningMean],
      tensors.weight_gradients[kRunningVariance]);
}

BatchNormShape BatchNorm::ShapeOf(const LayerCall& call) const {
  return {call.samples, options_.channels, options_.pixels, options_.relu};
}

}  // namespace tributary
