#include "deploy/launch/plan/pipeline_shape.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "common/text/counted.h"

namespace tributary {

PipelineShape PipelineShapeOf(const JobSpec& job, int workers) {
  const PipelineSpec& spec = job.parallel().pipeline();
  const auto micro_batches = static_cast<int>(job.batch().micro_batches());
  PipelineShape shape;
  shape.schedule = ScheduleOf(spec);
  shape.stages = std::min(spec.stages(), workers);
  shape.replicas = std::min(workers / shape.stages, micro_batches);
  shape.spares = workers - shape.replicas * shape.stages;
  shape.micro_batches = (micro_batches + shape.replicas - 1) / shape.replicas;
  return shape;
}

absl::Status CheckPipelineWorkers(const JobSpec& job, int workers) {
  const int stages = job.parallel().pipeline().stages();
  const int64_t micro_batches = job.batch().micro_batches();
  if (workers < stages) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--workers ", workers, ": parallel.pipeline.stages is ", stages,
        ", and the prediction needs a worker for each stage; raise --workers "
        "or lower parallel.pipeline.stages"));
  }
  if (workers / stages > micro_batches) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--workers ", workers, ": the batch has ",
        Counted(micro_batches, "micro-batch", "micro-batches"), ", so at most ",
        Counted(micro_batches * stages, "worker"), " can compute ", stages,
        " stages; raise batch.micro_batches (a power of two that divides "
        "batch.global) or lower --workers"));
  }
  return absl::OkStatus();
}

}  // namespace tributary
