#include "worker/nn/loss.h"

namespace tributary {

int64_t LossSpec::TargetElements() const {
  return kind == Kind::kSoftmaxCrossEntropy ? rows : rows * width;
}

Device::Loss ComputeLoss(Device* device, const LossSpec& spec, int64_t samples,
                         const Real* x, const void* target, Real* gradient) {
  const int64_t rows = samples * spec.rows;
  if (spec.kind == LossSpec::Kind::kSoftmaxCrossEntropy) {
    return device->SoftmaxCrossEntropy(
        rows, spec.width, x, static_cast<const int32_t*>(target), gradient);
  }
  return device->MeanSquaredError(rows, spec.width, x,
                                  static_cast<const float*>(target), gradient);
}

}  // namespace tributary
