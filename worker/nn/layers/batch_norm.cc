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
      {"weight", shape, ParameterGroup::kNoDecay, Initializer::Constant(1)},
      {"bias", shape, ParameterGroup::kNoDecay, Initializer::Constant(0)},
      {"running_mean", shape, ParameterGroup::kStatistics,
       Initializer::Constant(0)},
      {"running_var", shape, ParameterGroup::kStatistics,
       Initializer::Constant(1)}};
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
    Evaluate(call, tensors);
    return;
  }
  BatchNormOps::ForwardArguments args;
  args.shape = ShapeOf(call);
  args.x = tensors.inputs[0];
  args.scale = tensors.weights[kScale];
  args.shift = tensors.weights[kShift];
  args.residual = tensors.inputs[1];
  args.y = tensors.output;
  args.mean = tensors.saved;
  args.variance = tensors.saved + options_.channels;
  call.device->ops().batch_norm->Forward(args);
}

void BatchNorm::Evaluate(const LayerCall& call,
                         const LayerTensors& tensors) const {
  BatchNormOps::EvaluateArguments args;
  args.shape = ShapeOf(call);
  args.x = tensors.inputs[0];
  args.scale = tensors.weights[kScale];
  args.shift = tensors.weights[kShift];
  args.mean = tensors.weights[kRunningMean];
  args.variance = tensors.weights[kRunningVariance];
  args.residual = tensors.inputs[1];
  args.y = tensors.output;
  call.device->ops().batch_norm->Evaluate(args);
}

void BatchNorm::Backward(const LayerCall& call,
                         const LayerTensors& tensors) const {
  BatchNormOps::BackwardArguments args;
  args.shape = ShapeOf(call);
  args.x = tensors.inputs[0];
  args.scale = tensors.weights[kScale];
  args.mean = tensors.saved;
  args.variance = tensors.saved + options_.channels;
  args.y = tensors.output;
  args.dy = tensors.output_gradient;
  args.dx = tensors.input_gradients[0];
  args.dscale = tensors.weight_gradients[kScale];
  args.dshift = tensors.weight_gradients[kShift];
  args.dresidual = tensors.input_gradients[1];
  call.device->ops().batch_norm->Backward(args);
  BatchNormOps::StatisticsGradientArguments statistics;
  statistics.channels = options_.channels;
  statistics.observations = call.samples * options_.pixels;
  statistics.sample_count = call.sample_count;
  statistics.mean = args.mean;
  statistics.variance = args.variance;
  statistics.running_mean = tensors.weights[kRunningMean];
  statistics.running_variance = tensors.weights[kRunningVariance];
  statistics.dmean = tensors.weight_gradients[kRunningMean];
  statistics.dvariance = tensors.weight_gradients[kRunningVariance];
  call.device->ops().batch_norm->StatisticsGradient(statistics);
}

BatchNormShape BatchNorm::ShapeOf(const LayerCall& call) const {
  return {call.samples, options_.channels, options_.pixels, options_.relu};
}

}  // namespace tributary
