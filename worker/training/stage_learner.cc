#include "worker/training/stage_learner.h"

#include <utility>

#include "common/base/status_macros.h"

namespace tributary {

absl::StatusOr<std::unique_ptr<StageLearner>> StageLearner::Create(
    const TrainingSetup& setup, const StageSplit::Range& chunks) {
  TRIBUTARY_ASSIGN_OR_RETURN(
      std::unique_ptr<LocalSgd> local_sgd,
      LocalSgd::Create(setup.job(), setup.facts().steps(), &setup.layout(),
                       /*pin=*/nullptr, static_cast<int>(chunks.begin),
                       static_cast<int>(chunks.end)));
  return std::unique_ptr<StageLearner>(
      new StageLearner(setup, chunks, std::move(local_sgd)));
}

StageLearner::StageLearner(const TrainingSetup& setup,
                           const StageSplit::Range& chunks,
                           std::unique_ptr<LocalSgd> local_sgd)
    : setup_(setup), chunks_(chunks), local_sgd_(std::move(local_sgd)) {}

void StageLearner::Begin(const Task& task, const WorkState& state,
                         Buffer gradients) {
  task_ = &task;
  state_ = &state;
  arena_ = std::move(gradients);
  loss_sum_ = LossSum();
  local_sgd_->Begin(state.Weights(task.version),
                    setup_.rounds().StepsAfter(task.version));
}

void StageLearner::BeginStep(int64_t sample_count) {
  weights_.emplace(local_sgd_->weights(), *task_, *state_);
  gradients_.emplace(arena_.get(), sample_count);
}

void StageLearner::EndStep(LossSum loss_sum) {
  loss_sum_ += loss_sum;
  local_sgd_->Step(arena_.get(), gradients_->sample_count());
}

void StageLearner::Contribute(int micro_batch, StepGradients* round) {
  local_sgd_->OuterGradient(arena_.get());
  // The exchange relies on the order of backward.
  for (int64_t chunk = chunks_.end - 1; chunk >= chunks_.begin; --chunk) {
    round->Ready({round->NodeOf(micro_batch), static_cast<int>(chunk), arena_,
                  local_sgd_->total_sample_count(),
                  chunk == 0 ? loss_sum_ : LossSum()});
  }
  // Returns to the exchange when it has been sent.
  arena_.reset();
}

}  // namespace tributary
