// The tasks of a Trainer that evaluate, and the trace of its threads.
#include <algorithm>
#include <memory>

#include "common/base/failpoint.h"
#include "common/base/status_macros.h"
#include "worker/training/micro_batch_observer.h"
#include "worker/training/trainer.h"

namespace tributary {

absl::Status Trainer::Evaluate(const Task& task) {
  if (!state_->AwaitWeights(task, 0, setup_->layout().arena_elements())) {
    return absl::OkStatus();
  }
  ComputeThreadItems items = setup_->Distribute(task.items);
  TRIBUTARY_RETURN_IF_ERROR(
      RunOnThreads(&items, [&](int thread, int64_t piece) -> absl::Status {
        return EvaluatePiece(task, thread, piece);
      }));
  state_->MarkDone(task);
  return absl::OkStatus();
}

absl::Status Trainer::EvaluatePiece(const Task& task, int thread,
                                    int64_t piece) {
  TRIBUTARY_RETURN_IF_ERROR(Failpoint("W12"));
  ComputeTrace* const trace = TraceOf(thread);
  if (trace != nullptr) trace->Begin(task.version, static_cast<int>(piece));
  times_.timer(thread)->Switch(Activity::kEvaluate);
  Batch batch;
  const int64_t begin = piece * setup_->piece_samples();
  const int64_t end = std::min(begin + setup_->piece_samples(),
                               setup_->data().evaluation_samples());
  setup_->data().ReadEvaluation(begin, end, &batch);
  TRIBUTARY_RETURN_IF_ERROR(batch.error);
  const float* weights = state_->Weights(task.version);
  if (DeviceArenas* const device = setup_->arenas(thread)) {
    LoadWeights(*state_, task, setup_->layout(), /*begin=*/0,
                setup_->layout().arena_elements(),
                exchange_->DeviceWeights(task.version), device);
    // The weights may change once the task ends.
    TRIBUTARY_RETURN_IF_ERROR(device->Synchronize());
    weights = device->weights();
  }
  TRIBUTARY_ASSIGN_OR_RETURN(const LossSums sums,
                             setup_->model(thread)->Evaluate(batch, weights));
  WorkerReport report;
  EvaluationReport* evaluation = report.mutable_evaluation();
  evaluation->set_version(task.version);
  evaluation->set_piece(piece);
  evaluation->set_loss_sum(sums.loss);
  evaluation->set_correct(sums.correct);
  evaluation->set_weight(sums.sample_count);
  hooks_.report(report);
  return absl::OkStatus();
}

void Trainer::BeginTrace() {
  if (hooks_.trace == nullptr) return;
  for (int thread = 0; thread < setup_->threads(); ++thread) {
    traces_.push_back(std::make_unique<ComputeTrace>(
        hooks_.trace, thread, setup_->model(thread)->LayerNames()));
    times_.timer(thread)->SetObserver(traces_.back().get());
  }
}

}  // namespace tributary
