#include "worker/nn/layers/loss.h"

namespace tributary {

int64_t LossSpec::TargetElements() const {
  return kind == Kind::kSoftmaxCrossEntropy ? rows : rows * width;
}

void BeginLoss(Device* device, const LossSpec& spec, int64_t samples,
               const Real* x, const void* target, Real* gradient) {
  const int64_t rows = samples * spec.rows;
  if (spec.kind == LossSpec::Kind::kSoftmaxCrossEntropy) {
    device->BeginSoftmaxCrossEntropy(
        rows, spec.width, x, static_cast<const int32_t*>(target), gradient);
  } else {
    device->BeginMeanSquaredError(rows, spec.width, x,
                                  static_cast<const float*>(target), gradient);
  }
}

Device::Loss ComputeLoss(Device* device, const LossSpec& spec, int64_t samples,
                         const Real* x, const void* target, Real* gradient) {
  BeginLoss(device, spec, samples, x, target, gradient);
  return device->AwaitLoss();
}

}  // namespace tributary
