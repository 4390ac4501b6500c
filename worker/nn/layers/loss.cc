#include "worker/nn/layers/loss.h"

#include <algorithm>
#include <utility>

#include "worker/device/reals.h"

namespace tributary {
namespace {

Loss CallFunction(const LossSpec& spec, int64_t samples, const float* x,
                  const void* target, float* gradient) {
  LossFunction::Arguments args;
  args.samples = samples;
  args.x = x;
  if (spec.HasLabels()) {
    args.labels = static_cast<const int32_t*>(target);
  } else {
    args.values = static_cast<const float*>(target);
  }
  args.gradient = gradient;
  const LossFunction::Sums sums = spec.function->Compute(args);
  return {sums.loss, sums.correct, spec.CountedRows(samples, target)};
}

}  // namespace

LossSpec LossSpec::SoftmaxCrossEntropy(int64_t classes) {
  LossSpec spec;
  spec.width = classes;
  return spec;
}

LossSpec LossSpec::BinaryCrossEntropy() {
  LossSpec spec;
  spec.kind = Kind::kBinaryCrossEntropy;
  spec.width = 1;
  return spec;
}

LossSpec LossSpec::MeanSquaredError(int64_t numbers) {
  LossSpec spec;
  spec.kind = Kind::kMeanSquaredError;
  spec.width = numbers;
  return spec;
}

LossSpec LossSpec::Function(std::shared_ptr<const LossFunction> function,
                            int64_t width) {
  LossSpec spec;
  spec.kind = Kind::kFunction;
  spec.width = width;
  spec.function = std::move(function);
  return spec;
}

bool LossSpec::HasLabels() const {
  return kind == Kind::kFunction
             ? function->targets() == LossFunction::Targets::kLabels
             : kind != Kind::kMeanSquaredError;
}

int64_t LossSpec::TargetElements() const {
  if (kind == Kind::kFunction) return function->target_elements();
  return HasLabels() ? rows : rows * width;
}

int64_t LossSpec::CountedRows(int64_t samples, const void* target) const {
  if (!HasLabels()) return samples * rows;
  const auto* const labels = static_cast<const int32_t*>(target);
  return std::count_if(labels, labels + samples * TargetElements(),
                       [](int32_t label) { return label >= 0; });
}

void LossComputation::Begin(Device* device, const LossSpec& spec,
                            int64_t samples, const Real* x, const void* target,
                            Real* gradient) {
  if (spec.kind == LossSpec::Kind::kFunction) {
    ops_ = nullptr;
    function_loss_ = CallFunction(spec, samples, HostFloats(x), target,
                                  HostFloats(gradient));
    return;
  }
  ops_ = device->ops().loss.get();
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
    ops_->BeginSoftmaxCrossEntropy(args);
  } else if (spec.kind == LossSpec::Kind::kBinaryCrossEntropy) {
    ops_->BeginBinaryCrossEntropy(
        {rows, x, static_cast<const int32_t*>(target), gradient});
  } else {
    LossOps::MeanSquaredErrorArguments args;
    args.rows = rows;
    args.width = spec.width;
    args.x = x;
    args.target = static_cast<const float*>(target);
    args.dx = gradient;
    ops_->BeginMeanSquaredError(args);
  }
}

absl::StatusOr<Loss> LossComputation::Await() {
  if (ops_ == nullptr) return function_loss_;
  return ops_->Await();
}

absl::StatusOr<Loss> ComputeLoss(Device* device, const LossSpec& spec,
                                 int64_t samples, const Real* x,
                                 const void* target, Real* gradient) {
  LossComputation loss;
  loss.Begin(device, spec, samples, x, target, gradient);
  return loss.Await();
}

}  // namespace tributary
