// Computes a worker's stages of a pipeline.
#ifndef TRIBUTARY_WORKER_TRAINING_STAGE_RUNNER_H_
#define TRIBUTARY_WORKER_TRAINING_STAGE_RUNNER_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/pipeline/pipeline_operation.h"
#include "common/pipeline/pipeline_schedule.h"
#include "worker/exchange/exchange.h"
#include "worker/exchange/leaf_gradients.h"
#include "worker/exchange/step_gradients.h"
#include "worker/exchange/task_weights.h"
#include "worker/models/stages/stage_model.h"
#include "worker/models/stages/stage_split.h"
#include "worker/nn/gradient_sink.h"
#include "worker/nn/weights_view.h"
#include "worker/state/work_state.h"
#include "worker/training/stage_learner.h"
#include "worker/training/stages/part_receiver.h"
#include "worker/training/stages/stage_messages.h"
#include "worker/training/stages/stage_part.h"
#include "worker/training/task_runner.h"

namespace tributary {

// Returns the number of micro-batches that a worker holds at a time when it
// trains `micro_batches` micro-batches a step.
int SlotsOf(const PipelinePlace& place, PipelineSchedule schedule,
            int micro_batches);

// Computes the micro-batches of tasks through the worker's stages, in the order
// of the job's schedule (see common/pipeline). Passes values, their gradients
// and parts of the gradients of weights to the workers of other stages. In mode
// local_steps, computes each step of a round in this way, in which each
// micro-batch has weights of its own. Used by one compute thread.
class StageRunner final : public TaskRunner {
 public:
  struct Options : Tools {
    StagePart part;
  };

  // All pointers must outlive this object.
  explicit StageRunner(Options options);

  absl::Status Initialize() override;
  // Returns Aborted if the task must be given up, for example because a worker
  // of the pipeline was lost.
  absl::Status Train(const Task& task, StepGradients* step) override;
  // The worker of the last stage reports the results.
  absl::Status Evaluate(const Task& task) override;
  int64_t generation() const override { return part_.generation; }
  bool reads_batches() const override { return model_.reads_batches(); }
  MemoryAccount Memory(int micro_batches, bool shares_memory) const override;

 private:
  // A micro-batch in flight.
  struct InFlight : StageMessages::Item {
    int number = 0;
    int64_t step = 0;  // Of the job.
    int slot = 0;
    int64_t samples = 0;
    std::shared_ptr<const Batch> batch;  // Null if the stages do not read it.
    GradientSink* gradients = nullptr;
    // What becomes of the gradients: they are passed on, or used for a local
    // step.
    std::unique_ptr<LeafGradients> leaf;
    StageLearner* learner = nullptr;
  };

  // Takes the steps of a round. `weights` are those at its start.
  absl::Status TrainRound(const Task& task, const TaskWeights& weights,
                          StepGradients* round, std::vector<InFlight>* items);
  // Computes step number `step` of the job. Fills `items`, which must outlive
  // the task.
  absl::Status TrainStep(const Task& task, int64_t step,
                         const TaskWeights& weights, StepGradients* gradients,
                         std::vector<InFlight>* items);
  // Traces what follows as work for this micro-batch, or piece of the held-out
  // data.
  void BeginItem(const Task& task, int64_t number);
  absl::Status Run(const Task& task, PipelinePass pass, InFlight* item,
                   const TaskWeights& weights, StepGradients* step);
  absl::Status Weights(const Task& task, InFlight* item);
  // Finishes the micro-batches of `waiting_` whose parts have arrived or, with
  // `all`, waits for the parts.
  absl::Status FinishWaiting(const Task& task, bool all);
  absl::Status Forward(const Task& task, InFlight* item,
                       const TaskWeights& weights, StepGradients* step);
  // Exchanges the weights that local steps have changed, as far as stages of
  // several workers read them.
  absl::Status PassWeights(const Task& task, const InFlight& item);
  absl::Status Backward(const Task& task, InFlight* item);
  // Passes on all gradients of a micro-batch, which are complete, and frees its
  // slot.
  absl::Status Finish(const Task& task, InFlight* item);
  // Computes a micro-batch without samples: the gradients are zero.
  absl::Status ComputeEmpty(InFlight* item, const TaskWeights& weights,
                            StepGradients* step);
  absl::Status EvaluatePiece(const Task& task, int64_t piece,
                             const float* weights);

  const Options options_;
  const StagePart& part_;
  StageModel& model_;
  StageMessages messages_;

  // The chunks whose gradients the worker contributes.
  StageSplit::Range chunks_;
  // Receives parts for the micro-batches of `waiting_`. Null if no micro-batch
  // waits: there are no parts, or they are received before backward.
  std::unique_ptr<PartReceiver> part_receiver_;
  // One for each micro-batch of the task, in mode local_steps.
  std::vector<std::unique_ptr<StageLearner>> learners_;
  // Of the task under way.
  int slots_ = 0;
  std::vector<int> free_slots_;
  // Micro-batches whose weights have been computed, except for what is added to
  // parts from later workers, in the order of the schedule. With a schedule
  // that separates weights, later stages may compute their parts later, and
  // waiting for them would keep the stages before this one waiting.
  std::deque<InFlight*> waiting_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_TRAINING_STAGE_RUNNER_H_
