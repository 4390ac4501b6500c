// What a worker says about the layers of a job's model, of which the stages of
// a pipeline consist.
#ifndef TRIBUTARY_WORKER_TRAINING_MEASURED_STAGES_H_
#define TRIBUTARY_WORKER_TRAINING_MEASURED_STAGES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "common/pipeline/stage_balance.h"
#include "proto/job.pb.h"
#include "proto/rendezvous.pb.h"
#include "worker/models/stages/layer_costs.h"
#include "worker/nn/graph.h"
#include "worker/training/training_setup.h"

namespace tributary {

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

// Returns the segments of the model for Ready.segment: the stages that the job
// names or, if it names none, the parts between all layers with which a stage
// may begin. Unless `clock` is null, or the job names the stages, computes for
// half a second, or longer if a few micro-batches take longer, to measure how
// long the segments take now, while other programs use the machine. Returns the
// errors of MeasureStages.
absl::StatusOr<std::vector<StageSegment>> DescribeSegments(
    const TrainingSetup& setup, const Graph& graph, const RunClock& clock);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_TRAINING_MEASURED_STAGES_H_
