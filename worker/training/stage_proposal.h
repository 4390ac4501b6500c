// How to divide the model of a job into the stages of a pipeline.
#ifndef TRIBUTARY_WORKER_TRAINING_STAGE_PROPOSAL_H_
#define TRIBUTARY_WORKER_TRAINING_STAGE_PROPOSAL_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/pipeline/pipeline_schedule.h"
#include "common/pipeline/stage_balance.h"
#include "proto/job.pb.h"
#include "worker/nn/graph.h"
#include "worker/training/training_setup.h"

namespace tributary {

// Returns the schedule of a valid job.
PipelineSchedule ScheduleOf(const PipelineSpec& spec);

// The layers of a model, as measured on this machine, and the stages into which
// workers divide them.
struct MeasuredStages {
  // All micro-batches of a step pass through one pipeline, whose workers have
  // equal speed, enough memory, and links on which transfers take no time.
  BalanceInput input;
  std::vector<int> cuts;  // As EvaluateSplit takes them.
  StageBalance balance;   // Of `input` and `cuts`.
};

// Measures the layers on the device of the first compute thread, which takes a
// few times as long as one micro-batch. The stages begin with the layers that
// the job names or, if it names none, are those with which a step takes the
// least time. `graph` is the model of the job, which has parallel.pipeline.
// Returns InvalidArgument, naming the field of the job, if a named layer does
// not exist or the model cannot be divided in this way, and the errors of
// MeasureLayers.
absl::StatusOr<MeasuredStages> MeasureStages(const TrainingSetup& setup,
                                             const Graph& graph);

struct StageProposal {
  // The first layers of all stages but the first one, in ascending order.
  std::vector<int> cuts;
  // For each stage, a line for people: its layers and, if these were measured,
  // what they cost.
  std::vector<std::string> descriptions;
};

// Proposes the stages of MeasureStages. Measures nothing if the job names the
// layers with which stages begin, or there is only one stage. Returns the
// errors of MeasureStages.
absl::StatusOr<StageProposal> ProposeStages(const TrainingSetup& setup,
                                            const Graph& graph);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_TRAINING_STAGE_PROPOSAL_H_
