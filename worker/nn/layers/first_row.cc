#include "worker/nn/layers/first_row.h"

#include "worker/device/reals.h"

namespace tributary {
namespace {

Real* WritableAt(const Device& device, Real* x, int64_t index) {
  return const_cast<Real*>(RealAt(device, x, index));
}

}  // namespace

LayerSpec FirstRow::Spec() const {
  LayerSpec spec;
  spec.inputs = {rows_ * width_};
  spec.output = width_;
  return spec;
}

void FirstRow::Forward(const LayerCall& call,
                       const LayerTensors& tensors) const {
  for (int64_t b = 0; b < call.samples; ++b) {
    call.device->ops().elementwise->Copy(
        {width_, RealAt(*call.device, tensors.inputs[0], b * rows_ * width_),
         WritableAt(*call.device, tensors.output, b * width_)});
  }
}

void FirstRow::Backward(const LayerCall& call,
                        const LayerTensors& tensors) const {
  Real* const dx = tensors.input_gradients[0];
  if (dx == nullptr) return;
  // Zero counts elements of four bytes, which hold one or two Reals.
  call.device->Zero(reinterpret_cast<float*>(dx),
                    call.samples * rows_ * width_ * call.device->real_bytes() /
                        int64_t{sizeof(float)});
  for (int64_t b = 0; b < call.samples; ++b) {
    call.device->ops().elementwise->Copy(
        {width_, RealAt(*call.device, tensors.output_gradient, b * width_),
         WritableAt(*call.device, dx, b * rows_ * width_)});
  }
}

}  // namespace tributary
