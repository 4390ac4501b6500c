// How the workers of a job form pipelines.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_PLAN_PIPELINE_SHAPE_H_
#define TRIBUTARY_DEPLOY_LAUNCH_PLAN_PIPELINE_SHAPE_H_

#include "absl/status/status.h"
#include "common/pipeline/pipeline_schedule.h"
#include "proto/job.pb.h"

namespace tributary {

struct PipelineShape {
  PipelineSchedule schedule = PipelineSchedule::kZeroBubble;
  // Workers of a replica. With fewer workers than stages, workers compute
  // several stages as one.
  int stages = 1;
  int replicas = 1;
  int spares = 0;         // Workers that compute nothing.
  int micro_batches = 1;  // In a step, of the replica with the most.

  // The bubble if all passes take the same time, and transfers none.
  double FormulaBubble() const {
    return BubbleFraction(schedule, stages, micro_batches, {1, 1, 1});
  }
};

// Returns the shape of a resolved job with parallel.pipeline and at least one
// worker.
PipelineShape PipelineShapeOf(const JobSpec& job, int workers);

// Returns InvalidArgument, naming the flag and the field of the job, if there
// are fewer workers than stages, or too few micro-batches for all replicas.
absl::Status CheckPipelineWorkers(const JobSpec& job, int workers);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_PLAN_PIPELINE_SHAPE_H_
