// The rows of tables that compute threads train on, requested ahead.
#ifndef TRIBUTARY_WORKER_TRAINING_TRAINING_ROWS_H_
#define TRIBUTARY_WORKER_TRAINING_TRAINING_ROWS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "worker/data/batch.h"
#include "worker/exchange/row_exchange.h"
#include "worker/exchange/step_rows.h"
#include "worker/sparse/announced_rows.h"
#include "worker/sparse/feature_rows.h"
#include "worker/sparse/row_lookups.h"
#include "worker/state/work_state.h"
#include "worker/training/training_batches.h"
#include "worker/training/training_setup.h"

namespace tributary {

// Requests the rows of micro-batches ahead, and completes batches with the
// vectors of their features, or lets a program look up rows. The methods that
// take a task may be called by several compute threads at once.
class TrainingRows {
 public:
  // All arguments must outlive this object.
  TrainingRows(const TrainingSetup* setup, TrainingBatches* batches,
               const WorkState* state, RowExchange* exchange);
  ~TrainingRows();

  // Returns true if the models find out the keys of their samples themselves;
  // see TrainingSources::announced_rows.
  bool program_finds_keys() const { return announced_ != nullptr; }

  // Begins a training task: its rows are sent when Ready was called for all of
  // its micro-batches. Not while a compute thread calls another method.
  void Begin(const Task& task);
  // Requests the rows of those micro-batches of the task and of the next step
  // whose samples have been read.
  void RequestAhead(const Task& task) ABSL_LOCKS_EXCLUDED(mu_);

  // The samples of a micro-batch and their rows.
  struct Leaf {
    std::shared_ptr<const Batch> batch;
    BatchRows rows;
    std::unique_ptr<RequestedRows> requested;
    // What the program looks up, if program_finds_keys().
    std::unique_ptr<RowLookups> lookups;
    // The batch without keys, with the vectors of its samples or with
    // `lookups`.
    Batch input;
  };
  // Returns the leaf of a micro-batch of the task. Blocks until its samples and
  // rows have arrived. Returns Batch::error, the errors of FeatureRows::RowsOf
  // and those of RequestedRows::Await.
  absl::StatusOr<std::unique_ptr<Leaf>> Take(const Task& task, int thread,
                                             int micro_batch)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Passes on the gradients of the leaf's rows. `vector_gradients` are those of
  // Batch::vectors. Returns the errors of RowLookups::AwaitVersion.
  absl::Status Ready(int micro_batch, int64_t sample_count, const Leaf& leaf,
                     const float* vector_gradients);

  // Sets the vectors of samples to evaluate in the task's version. Blocks, and
  // returns errors, like Take.
  absl::Status AddVectors(const Task& task, Batch* batch) const;
  // Returns what the program looks up for samples to evaluate.
  std::unique_ptr<RowLookups> EvaluationLookups(const Task& task) const;

 private:
  // Returns the leaf of a program that finds out the keys.
  absl::StatusOr<std::unique_ptr<Leaf>> TakeLookups(const Task& task,
                                                    int thread,
                                                    int micro_batch);
  // Returns a leaf whose rows of `version` have been requested.
  absl::StatusOr<std::unique_ptr<Leaf>> Request(
      int64_t version, std::shared_ptr<const Batch> batch) const;
  // Returns the version of the rows of a step.
  int64_t VersionOf(int64_t step) const;
  absl::Status Pool(const Task& task, const Batch& batch, const BatchRows& rows,
                    RequestedRows* requested,
                    std::vector<float>* vectors) const;

  const TrainingSetup& setup_;
  TrainingBatches* const batches_;
  const WorkState* const state_;
  RowExchange* const exchange_;
  const FeatureRows features_;
  AnnouncedRows* const announced_;  // Null unless program_finds_keys().
  std::unique_ptr<StepRows> step_;

  absl::Mutex mu_;
  // Leaves that no thread has taken, by (step, micro-batch).
  std::map<std::pair<int64_t, int>, std::unique_ptr<Leaf>> leaves_
      ABSL_GUARDED_BY(mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_TRAINING_TRAINING_ROWS_H_
