// The local steps of one micro-batch in a worker's stages of a pipeline.
#ifndef TRIBUTARY_WORKER_TRAINING_STAGE_LEARNER_H_
#define TRIBUTARY_WORKER_TRAINING_STAGE_LEARNER_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/buffer_pool.h"
#include "common/numerics/loss_sum.h"
#include "worker/exchange/step_gradients.h"
#include "worker/exchange/task_weights.h"
#include "worker/models/stages/stage_split.h"
#include "worker/nn/gradient_sink.h"
#include "worker/nn/weights_view.h"
#include "worker/state/work_state.h"
#include "worker/training/local_sgd.h"
#include "worker/training/training_setup.h"

namespace tributary {

// In mode local_steps (local SGD), a micro-batch takes the steps of a round on
// weights of its own (see LocalSgd). In a pipeline, each worker updates the
// chunks that it contributes. It gets what it reads besides, parts of other
// chunks, from the workers that update those; see StageSplit::Part.
//
// The calls are: Begin for each round; for each step SkipStep, or BeginStep and
// EndStep; at the end of the round, Contribute. Used by one compute thread.
class StageLearner {
 public:
  // Updates `chunks`. `setup` must outlive the result. Returns the errors of
  // LocalSgd::Create.
  static absl::StatusOr<std::unique_ptr<StageLearner>> Create(
      const TrainingSetup& setup, const StageSplit::Range& chunks);

  // Begins the round of a task, from the task's weights, which must have
  // arrived. `gradients` is an arena. All arguments must outlive the round.
  void Begin(const Task& task, const WorkState& state, Buffer gradients);

  // True if a step of the round has changed the weights, so that those which
  // other workers update must be replaced before the next one.
  bool updated() const { return local_sgd_->updates() > 0; }
  // The newest weights, an arena, and what replaces elements of it.
  const float* values() const { return local_sgd_->weights(); }
  void Replace(int64_t begin, absl::Span<const float> values) {
    local_sgd_->Replace(begin, values);
  }

  // Begins a step with `sample_count` samples (for texts, tokens).
  void BeginStep(int64_t sample_count);
  // The weights and the gradients of the step, valid until EndStep.
  const WeightsView& weights() const { return *weights_; }
  GradientSink* gradients() { return &*gradients_; }
  // Updates the weights. `loss_sum` is the sum of the losses of the samples.
  void EndStep(LossSum loss_sum);
  // Takes a step without samples.
  void SkipStep() { local_sgd_->Step(/*gradient_sum=*/nullptr, 0); }

  // Passes the outer gradient of the round on, as that of `micro_batch`.
  void Contribute(int micro_batch, StepGradients* round);

 private:
  StageLearner(const TrainingSetup& setup, const StageSplit::Range& chunks,
               std::unique_ptr<LocalSgd> local_sgd);

  const TrainingSetup& setup_;
  const StageSplit::Range chunks_;
  const std::unique_ptr<LocalSgd> local_sgd_;
  // Of the round.
  const Task* task_ = nullptr;
  const WorkState* state_ = nullptr;
  Buffer arena_;  // For gradients, and at the end the outer one.
  LossSum loss_sum_;
  // Of the step.
  std::optional<LocalWeights> weights_;
  std::optional<GradientSink> gradients_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_TRAINING_STAGE_LEARNER_H_
