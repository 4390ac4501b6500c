// Measures the inputs of the plan of a pipeline on this machine.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_PLAN_PIPELINE_INPUTS_H_
#define TRIBUTARY_DEPLOY_LAUNCH_PLAN_PIPELINE_INPUTS_H_

#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "deploy/launch/plan/exchange_plan.h"
#include "worker/models/stages/stage_split.h"
#include "worker/training/measured_stages.h"
#include "worker/training/training_setup.h"

namespace tributary {

// The inputs of PlanPipeline.
struct PipelineInputs {
  // The job, its processes and links. `threads` and `micro_batch` are not used:
  // one thread computes the stages of a worker. Servers add one gradient for
  // each replica.
  PlanInputs exchange;
  MeasuredStages stages;
  StageSplit split;  // The chunks of the same stages.
  // The job without parallel.pipeline, in which each worker computes the whole
  // model. Nullopt if that does not fit into the memory of this machine.
  absl::optional<PlanInputs> whole;
  // Memory of a worker that computes the whole model with one thread, and the
  // memory of this machine that is free.
  int64_t whole_bytes = 0;
  int64_t free_bytes = std::numeric_limits<int64_t>::max();
};

// Returns the inputs that have to do with stages: `stages`, `split`,
// `whole_bytes` and `free_bytes`. Measures the layers of the job of `setup`,
// which has parallel.pipeline. Returns the errors of MeasureStages.
absl::StatusOr<PipelineInputs> MeasurePipeline(const TrainingSetup& setup);

// Scales the times of all layers so that their sum is `micro_batch_seconds`,
// the time of one micro-batch of the whole model. Layers are measured a block
// at a time, with their data in the caches, and the shortest time counts; all
// layers together take longer. Returns the errors of EvaluateSplit.
absl::Status ScaleLayers(double micro_batch_seconds, MeasuredStages* stages);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_PLAN_PIPELINE_INPUTS_H_
