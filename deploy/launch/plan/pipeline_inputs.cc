#include "deploy/launch/plan/pipeline_inputs.h"

#include <vector>

#include "common/base/status_macros.h"
#include "common/os/process.h"
#include "common/pipeline/stage_balance.h"

namespace tributary {

absl::StatusOr<PipelineInputs> MeasurePipeline(const TrainingSetup& setup) {
  PipelineInputs inputs;
  TRIBUTARY_ASSIGN_OR_RETURN(const Graph graph, setup.BuildGraph());
  TRIBUTARY_ASSIGN_OR_RETURN(inputs.stages, MeasureStages(setup, graph));
  std::vector<int> cuts;
  for (const BalancedStage& stage : inputs.stages.balance.stages) {
    if (stage.begin_layer > 0) cuts.push_back(stage.begin_layer);
  }
  TRIBUTARY_ASSIGN_OR_RETURN(inputs.split,
                             SplitIntoStages(graph, setup.layout(), cuts));
  BalanceInput whole = inputs.stages.input;
  whole.micro_batches = 1;
  whole.devices.resize(1);
  TRIBUTARY_ASSIGN_OR_RETURN(const StageBalance one,
                             EvaluateSplit(whole, /*cuts=*/{}));
  inputs.whole_bytes = one.stages[0].memory_bytes;
  inputs.free_bytes = AvailableMemoryBytes().value_or(inputs.free_bytes);
  return inputs;
}

absl::Status ScaleLayers(double micro_batch_seconds, MeasuredStages* stages) {
  double sum = 0;
  for (const PipelineLayer& layer : stages->input.layers) {
    sum += layer.cost.seconds.total();
  }
  if (sum <= 0) return absl::OkStatus();
  const double factor = micro_batch_seconds / sum;
  for (PipelineLayer& layer : stages->input.layers) {
    PassSeconds& seconds = layer.cost.seconds;
    seconds = {factor * seconds.forward, factor * seconds.backward_input,
               factor * seconds.backward_weights};
  }
  TRIBUTARY_ASSIGN_OR_RETURN(stages->balance,
                             EvaluateSplit(stages->input, stages->cuts));
  return absl::OkStatus();
}

}  // namespace tributary
