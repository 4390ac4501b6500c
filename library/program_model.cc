#include "library/program_model.h"

#include <algorithm>

#include "absl/status/status.h"

namespace tributary {

void ProgramModel::Initialize(uint64_t seed, const ArenaLayout& /*layout*/,
                              float* weights) const {
  declared_->Initialize(seed, weights);
}

absl::StatusOr<LossSums> ProgramModel::ForwardBackward(
    const Batch& batch, uint64_t seed, int64_t step, int micro_batch,
    const WeightsView& weights, GradientSink* gradients,
    StepObserver* observer) {
  if (batch.samples == 0) {
    const int64_t elements = declared_->layout().arena_elements();
    if (!weights.Await(0, elements)) {
      return absl::AbortedError("the micro-batch was given up");
    }
    if (device_ != nullptr) {
      device_->Zero(gradients->data(), elements);
    } else {
      std::fill_n(gradients->data(), elements, 0.0f);
    }
    gradients->Ready(0);
    return LossSums();
  }
  Work work;
  work.batch = &batch;
  work.device = device_;
  work.seed = seed;
  work.step = step;
  work.micro_batch = micro_batch;
  work.weights = &weights;
  work.gradients = gradients;
  work.observer = observer;
  const absl::Status status = handover_->Do(&work);
  if (!status.ok()) return status;
  return work.result;
}

absl::StatusOr<LossSums> ProgramModel::Evaluate(const Batch& batch,
                                                const float* weights) {
  Work work;
  work.evaluates = true;
  work.batch = &batch;
  work.device = device_;
  const WeightsView view(weights);
  work.weights = &view;
  const absl::Status status = handover_->Do(&work);
  if (!status.ok()) return status;
  return work.result;
}

absl::Status ProgramModel::NextTokenLogits(absl::Span<const int32_t> /*tokens*/,
                                           const float* /*weights*/,
                                           absl::Span<float> /*logits*/) {
  return absl::UnimplementedError("only model.gpt predicts tokens");
}

}  // namespace tributary
