// Predicts the time of a step of a job whose model is divided into the stages
// of a pipeline, and compares it with workers that compute the whole model.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_PLAN_PIPELINE_PLAN_H_
#define TRIBUTARY_DEPLOY_LAUNCH_PLAN_PIPELINE_PLAN_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "common/pipeline/stage_balance.h"
#include "deploy/launch/plan/pipeline_inputs.h"
#include "deploy/launch/plan/pipeline_shape.h"

namespace tributary {

// The prediction for one placement of the processes.
struct PlannedPipeline {
  // Identifier, for scripts, and name, for users; see PlannedExchange.
  std::string key;
  std::string name;
  // Time for which the busiest link carries gradients to the servers or weights
  // from them, in its busier direction; in an all-reduce, gradients and weights
  // to other workers, one after the other.
  double link_seconds = 0;
  // Time in which the busiest server, or worker of an all-reduce, adds the
  // gradients and updates the weights.
  double pass_seconds = 0;
  // Time from the first pass of a step to the last one, and the fraction of it
  // during which stages are idle.
  double pipeline_seconds = 0;
  double bubble = 0;
  double step_seconds = 0;
  std::string bottleneck;
  // Time of a step without a pipeline. Nullopt if the whole model does not fit.
  absl::optional<double> whole_step_seconds;
};

struct PipelinePlan {
  PipelineShape shape;
  // The stages, with the memory for this number of micro-batches.
  std::vector<BalancedStage> stages;
  // First with a host for each process (in an all-reduce, for each worker),
  // then with all on one host.
  std::vector<PlannedPipeline> rows;
  std::string advice;  // One line: whether to use the pipeline.
};

// Predicts the time of a step. Returns the errors of CheckPipelineWorkers.
//
// In addition to what PlanExchange assumes: a step begins when all stages have
// completed the one before it; links between workers carry only transfers
// between stages; on one host, these take no time except for the copy at the
// sender.
absl::StatusOr<PipelinePlan> PlanPipeline(const PipelineInputs& inputs);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_PLAN_PIPELINE_PLAN_H_
