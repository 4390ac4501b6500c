#include "worker/training/evaluator.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "common/base/failpoint.h"
#include "common/base/status_macros.h"
#include "worker/exchange/task_weights.h"

namespace tributary {

EvaluatedSamples::EvaluatedSamples(const TrainingSetup& setup, int64_t piece)
    : begin(piece * setup.piece_samples()),
      end(std::min(begin + setup.piece_samples(),
                   setup.data().evaluation_samples())) {}

WorkerReport ReportOf(int64_t version, int64_t piece, const LossSums& sums) {
  WorkerReport report;
  EvaluationReport* const evaluation = report.mutable_evaluation();
  evaluation->set_version(version);
  evaluation->set_piece(piece);
  evaluation->set_loss_sum(sums.loss);
  evaluation->set_correct(sums.correct);
  evaluation->set_weight(sums.sample_count);
  for (const LossSums::Metric& metric : sums.metrics) {
    MetricSum* const added = evaluation->add_metric();
    added->set_name(metric.name);
    added->set_sum(metric.sum);
    added->set_count(metric.count);
  }
  uint32_t last = 0;
  for (const auto& [bin, counts] : sums.scores.bins()) {
    ScoreBins* const scores = evaluation->mutable_scores();
    scores->add_bin_delta(bin - last);
    scores->add_negatives(counts.negatives);
    scores->add_positives(counts.positives);
    last = bin;
  }
  return report;
}

Evaluator::Evaluator(const TrainingSetup* setup, const TrainingRows* rows,
                     WorkState* state, const Exchange* exchange,
                     ComputeThreads* threads,
                     std::function<void(const WorkerReport&)> report)
    : setup_(*setup),
      rows_(rows),
      state_(state),
      exchange_(*exchange),
      threads_(threads),
      report_(std::move(report)) {}

absl::Status Evaluator::Run(const Task& task) {
  if (!state_->AwaitWeights(task, 0, setup_.layout().arena_elements())) {
    return absl::AbortedError("the evaluation was given up");
  }
  ComputeThreadItems items = setup_.Distribute(task.items);
  TRIBUTARY_RETURN_IF_ERROR(threads_->Run(
      task.version, &items, [&](int thread, int64_t piece) -> absl::Status {
        return EvaluatePiece(task, thread, piece);
      }));
  state_->MarkDone(task);
  return absl::OkStatus();
}

absl::Status Evaluator::EvaluatePiece(const Task& task, int thread,
                                      int64_t piece) {
  TRIBUTARY_RETURN_IF_ERROR(Failpoint("W12"));
  threads_->thread(thread)->Switch(Activity::kEvaluate);
  Batch batch;
  const EvaluatedSamples samples(setup_, piece);
  setup_.data().ReadEvaluation(samples.begin, samples.end, &batch);
  TRIBUTARY_RETURN_IF_ERROR(batch.error);
  std::unique_ptr<RowLookups> lookups;
  if (rows_ != nullptr && rows_->program_finds_keys()) {
    lookups = rows_->EvaluationLookups(task);
    batch.lookups = lookups.get();
  } else if (rows_ != nullptr) {
    TRIBUTARY_RETURN_IF_ERROR(rows_->AddVectors(task, &batch));
  }
  DeviceArenas* const device = setup_.arenas(thread);
  const TaskWeights weights(task, state_, exchange_, device,
                            /*observer=*/nullptr);
  if (device != nullptr) {
    if (!weights.Await(0, setup_.layout().arena_elements())) {
      return absl::AbortedError("the evaluation was given up");
    }
    // The weights may change once the task ends.
    TRIBUTARY_RETURN_IF_ERROR(device->Synchronize());
  }
  TRIBUTARY_ASSIGN_OR_RETURN(
      const LossSums sums,
      setup_.model(thread)->Evaluate(batch, weights.data()));
  report_(ReportOf(task.version, piece, sums));
  return absl::OkStatus();
}

}  // namespace tributary
