// Simulates one step of a pipeline.
#ifndef TRIBUTARY_COMMON_PIPELINE_PIPELINE_TIMELINE_H_
#define TRIBUTARY_COMMON_PIPELINE_PIPELINE_TIMELINE_H_

#include <vector>

#include "common/pipeline/pass_seconds.h"
#include "common/pipeline/pipeline_operation.h"
#include "common/pipeline/pipeline_schedule.h"

namespace tributary {

// Transfers over the boundary between two stages. Messages of one direction
// follow each other on the link; the two directions do not compete.
struct BoundarySeconds {
  double forward = 0;   // Time on the link of one micro-batch's activations.
  double backward = 0;  // Time on the link of their gradients.
  double latency = 0;   // Added to each message; messages may overlap in it.
};

// The step to simulate.
struct PipelineStep {
  PipelineSchedule schedule = PipelineSchedule::kOneForwardOneBackward;
  int micro_batches = 1;
  std::vector<PassSeconds> stages;  // For one micro-batch.
  // Boundary i is between the stages i and i + 1. Empty: transfers take no
  // time.
  std::vector<BoundarySeconds> boundaries;
  int queue_capacity = kStageQueueCapacity;  // At least 1.
};

// Times are in seconds from the beginning of the step.
struct TimedOperation {
  PipelineOperation operation;
  double begin = 0;
  double end = 0;
};

struct StageTimeline {
  std::vector<TimedOperation> operations;  // In the order of execution.
  double idle_seconds = 0;                 // Of PipelineTimeline::seconds.
};

struct PipelineTimeline {
  std::vector<StageTimeline> stages;
  // Time of the step. Infinite if the stages' orders deadlock; the operations
  // that never begin are then absent.
  double seconds = 0;
  // The fraction of the stages' time during which they are idle. Includes the
  // time for which they wait for a slower stage.
  double bubble = 0;
};

// Simulates that each stage runs the operations of its StageOrder, each as soon
// as the previous one has ended, its input has arrived and there is a place for
// its result.
PipelineTimeline SimulatePipeline(const PipelineStep& step);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_PIPELINE_PIPELINE_TIMELINE_H_
