#include "worker/nn/layers/activation.h"

namespace tributary {

ActivationLayer::ActivationLayer(const Function& function, int64_t size)
    : function_(function), size_(size) {}

LayerSpec ActivationLayer::Spec() const {
  LayerSpec spec;
  spec.inputs = {size_};
  spec.output = size_;
  spec.backward_reads_input = function_.at == At::kInput;
  spec.backward_reads_output = function_.at == At::kOutput;
  if (function_.at == At::kOutput) spec.in_place_input = 0;
  spec.gradient_in_place = true;
  spec.is_gelu = function_.is_gelu;
  return spec;
}

void ActivationLayer::Forward(const LayerCall& call,
                              const LayerTensors& tensors) const {
  ElementwiseOps& ops = *call.device->ops().elementwise;
  (ops.*function_.forward)({call.samples * size_, tensors.inputs[0],
                            tensors.output, function_.alpha});
}

void ActivationLayer::Backward(const LayerCall& call,
                               const LayerTensors& tensors) const {
  if (tensors.input_gradients[0] == nullptr) return;
  ElementwiseOps& ops = *call.device->ops().elementwise;
  const Real* const at =
      function_.at == At::kInput ? tensors.inputs[0] : tensors.output;
  (ops.*function_.backward)({call.samples * size_, at, tensors.output_gradient,
                             tensors.input_gradients[0], function_.alpha});
}

Relu::Relu(int64_t size)
    : ActivationLayer({&ElementwiseOps::ReluForward,
                       &ElementwiseOps::ReluBackward, At::kOutput},
                      size) {}

Gelu::Gelu(int64_t size)
    : ActivationLayer(
          {&ElementwiseOps::GeluForward, &ElementwiseOps::GeluBackward,
           At::kInput, /*is_gelu=*/true},
          size) {}

ExactGelu::ExactGelu(int64_t size)
    : ActivationLayer({&ElementwiseOps::ExactGeluForward,
                       &ElementwiseOps::ExactGeluBackward, At::kInput},
                      size) {}

Tanh::Tanh(int64_t size)
    : ActivationLayer({&ElementwiseOps::TanhForward,
                       &ElementwiseOps::TanhBackward, At::kOutput},
                      size) {}

Sigmoid::Sigmoid(int64_t size)
    : ActivationLayer({&ElementwiseOps::SigmoidForward,
                       &ElementwiseOps::SigmoidBackward, At::kOutput},
                      size) {}

Silu::Silu(int64_t size)
    : ActivationLayer({&ElementwiseOps::SiluForward,
                       &ElementwiseOps::SiluBackward, At::kInput},
                      size) {}

LeakyRelu::LeakyRelu(int64_t size, float alpha)
    : ActivationLayer({&ElementwiseOps::LeakyReluForward,
                       &ElementwiseOps::LeakyReluBackward, At::kInput,
                       /*is_gelu=*/false, alpha},
                      size) {}

Elu::Elu(int64_t size, float alpha)
    : ActivationLayer(
          {&ElementwiseOps::EluForward, &ElementwiseOps::EluBackward,
           At::kInput, /*is_gelu=*/false, alpha},
          size) {}

Softplus::Softplus(int64_t size)
    : ActivationLayer({&ElementwiseOps::SoftplusForward,
                       &ElementwiseOps::SoftplusBackward, At::kInput},
                      size) {}

}  // namespace tributary
