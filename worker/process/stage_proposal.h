// How a worker proposes to divide its model into the stages of a pipeline.
#ifndef TRIBUTARY_WORKER_PROCESS_STAGE_PROPOSAL_H_
#define TRIBUTARY_WORKER_PROCESS_STAGE_PROPOSAL_H_

#include <vector>

#include "absl/status/statusor.h"
#include "common/os/logger.h"
#include "common/pipeline/pipeline_schedule.h"
#include "worker/training/training_setup.h"

namespace tributary {

// Returns the first layers of all stages but the first one, in ascending order:
// those that the job names or, if it names none, those of the division with
// which a step takes the least time. For that, measures the layers on the
// worker's device, which takes a few times as long as one micro-batch, and logs
// the stages. Returns InvalidArgument, naming the field of the job, if a named
// layer does not exist or the model cannot be divided into so many stages.
absl::StatusOr<std::vector<int>> ProposeCuts(const TrainingSetup& setup,
                                             PipelineSchedule schedule,
                                             Logger* log);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_PROCESS_STAGE_PROPOSAL_H_
