// Evaluates pieces of the held-out data.
#ifndef TRIBUTARY_WORKER_TRAINING_EVALUATOR_H_
#define TRIBUTARY_WORKER_TRAINING_EVALUATOR_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "proto/rendezvous.pb.h"
#include "worker/exchange/exchange.h"
#include "worker/state/work_state.h"
#include "worker/training/compute_threads.h"
#include "worker/training/training_rows.h"
#include "worker/training/training_setup.h"

namespace tributary {

// The samples [begin, end) of a piece of the held-out data.
struct EvaluatedSamples {
  EvaluatedSamples(const TrainingSetup& setup, int64_t piece);

  int64_t begin = 0;
  int64_t end = 0;
};

// Returns the report of a piece that was evaluated at a version.
WorkerReport ReportOf(int64_t version, int64_t piece, const LossSums& sums);

// Runs the tasks of a worker that evaluate the model. Thread-compatible.
class Evaluator {
 public:
  // Passes the results to `report`, on the compute threads. `rows` is null in
  // jobs without tables. All arguments must outlive this object.
  Evaluator(const TrainingSetup* setup, const TrainingRows* rows,
            WorkState* state, const Exchange* exchange, ComputeThreads* threads,
            std::function<void(const WorkerReport&)> report);

  // Runs a task, and returns its first error, or Aborted if the task must be
  // given up.
  absl::Status Run(const Task& task);

 private:
  absl::Status EvaluatePiece(const Task& task, int thread, int64_t piece);

  const TrainingSetup& setup_;
  const TrainingRows* const rows_;
  WorkState* const state_;
  const Exchange& exchange_;
  ComputeThreads* const threads_;
  const std::function<void(const WorkerReport&)> report_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_TRAINING_EVALUATOR_H_
