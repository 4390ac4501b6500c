// How a worker proposes to divide its model into the stages of a pipeline.
#ifndef TRIBUTARY_WORKER_PROCESS_STAGE_PROPOSAL_H_
#define TRIBUTARY_WORKER_PROCESS_STAGE_PROPOSAL_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/pipeline/pipeline_schedule.h"
#include "worker/nn/graph.h"
#include "worker/training/training_setup.h"

namespace tributary {

struct StageProposal {
  // The first layers of all stages but the first one, in ascending order.
  std::vector<int> cuts;
  // For each stage, a line for people: its layers and, if these were measured,
  // what they cost.
  std::vector<std::string> descriptions;
};

// Proposes the stages that begin with the layers that the job names or, if it
// names none, those with which a step takes the least time. For that, measures
// the layers on the worker's device, which takes a few times as long as one
// micro-batch. `graph` is the model of the job. Returns InvalidArgument, naming
// the field of the job, if a named layer does not exist or the model cannot be
// divided into so many stages.
absl::StatusOr<StageProposal> ProposeStages(const TrainingSetup& setup,
                                            const Graph& graph,
                                            PipelineSchedule schedule);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_PROCESS_STAGE_PROPOSAL_H_
