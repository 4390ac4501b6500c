#include "slope.h"

#include <algorithm>

using tributary::HostFloats;

tributary::LayerSpec Slope::Spec() const {
  tributary::LayerSpec spec;
  spec.inputs = {size_};
  spec.output = size_;
  spec.parameters = {{"slope",
                      {size_},
                      tributary::ParameterGroup::kNoDecay,
                      tributary::Initializer::Constant(0.25)}};
  spec.backward_reads_input = true;
  // Forward and Backward access the tensors with loops of their own.
  spec.host_floats = true;
  return spec;
}

void Slope::Forward(const tributary::LayerCall& call,
                    const tributary::LayerTensors& tensors) const {
  const float* const x = HostFloats(tensors.inputs[0]);
  const float* const slope = tensors.weights[0];
  float* const y = HostFloats(tensors.output);
  for (int64_t i = 0; i < call.samples * size_; ++i) {
    y[i] = x[i] > 0 ? x[i] : slope[i % size_] * x[i];
  }
}

void Slope::Backward(const tributary::LayerCall& call,
                     const tributary::LayerTensors& tensors) const {
  const float* const x = HostFloats(tensors.inputs[0]);
  const float* const slope = tensors.weights[0];
  const float* const dy = HostFloats(tensors.output_gradient);
  float* const dslope = tensors.weight_gradients[0];
  std::fill_n(dslope, size_, 0.0f);
  for (int64_t i = 0; i < call.samples * size_; ++i) {
    if (x[i] <= 0) dslope[i % size_] += x[i] * dy[i];
  }
  if (tensors.input_gradients[0] == nullptr) return;
  float* const dx = HostFloats(tensors.input_gradients[0]);
  for (int64_t i = 0; i < call.samples * size_; ++i) {
    dx[i] = x[i] > 0 ? dy[i] : slope[i % size_] * dy[i];
  }
}
