#include "worker/nn/layers/loss.h"

namespace tributary {

int64_t LossSpec::TargetElements() const {
  return kind == Kind::kSoftmaxCrossEntropy ? rows : rows * width;
}

void BeginLoss(Device* device, const LossSpec& spec, int64_t samples,
               const Real* x, const void* target, Real* gradient) {
  const int64_t rows = samples * spec.rows;
  if (spec.kind == LossSpec::Kind::kSoftmaxCrossEntropy) {
    LossOps::SoftmaxCrossEntropyArguments args;
    args.rows = rows;
    args.classes = spec.width;
    args.logits = x;
    args.labels = static_cast<const int32_t*>(target);
    args.dlogits = gradient;
    args.smoothing = spec.smoothing;
    args.padding = spec.padding;
    device->ops().loss->BeginSoftmaxCrossEntropy(args);
  } else {
    LossOps::MeanSquaredErrorArguments args;
    args.rows = rows;
    args.width = spec.width;
    args.x = x;
    args.target = static_cast<const float*>(target);
    args.dx = gradient;
    device->ops().loss->BeginMeanSquaredError(args);
  }
}

absl::StatusOr<Loss> ComputeLoss(Device* device, const LossSpec& spec,
                                 int64_t samples, const Real* x,
                                 const void* target, Real* gradient) {
  BeginLoss(device, spec, samples, x, target, gradient);
  return device->ops().loss->Await();
}

}  // namespace tributary
