// ValidateJob: checks each field by itself, then combinations of fields.
#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/field_checks.h"
#include "common/base/status_macros.h"
#include "common/job/exchange_traits.h"
#include "common/job/gpt_preset.h"
#include "common/job/job.h"
#include "common/job/job_checks.h"
#include "common/job/job_data_validation.h"
#include "common/job/job_exchange_validation.h"
#include "common/job/job_model_validation.h"
#include "common/job/job_schedule_validation.h"
#include "common/job/job_sparse_validation.h"
#include "common/optimizer/optimizer.h"

namespace tributary {
namespace {

// job_checks.h explains the purpose of the limits.
constexpr int64_t kMaxSampleBytes = 1000000;

absl::Status ValidateBatch(const BatchSpec& batch) {
  if (!batch.has_global()) return Required("batch.global");
  TRIBUTARY_RETURN_IF_ERROR(
      Between("batch.global", batch.global(), 1, kMaxBatch));
  const int64_t count = batch.micro_batches();
  TRIBUTARY_RETURN_IF_ERROR(Between("batch.micro_batches", count,
                                    kFindMicroBatches, kMaxMicroBatches));
  if (count == kFindMicroBatches) return absl::OkStatus();
  if ((count & (count - 1)) != 0) {
    return Error("batch.micro_batches", count, " is not a power of two");
  }
  if (count != 0 && batch.global() % count != 0) {
    return Error("batch.micro_batches", count, " does not divide batch.global ",
                 batch.global());
  }
  return absl::OkStatus();
}

absl::Status ValidateLength(const JobSpec& job) {
  if (!job.has_steps() && !job.has_epochs()) {
    return Error("steps", "set steps or epochs");
  }
  if (job.has_steps() && job.has_epochs()) {
    return Error("epochs", "set steps or epochs, not both");
  }
  if (job.has_steps()) return Between("steps", job.steps(), 1, kMaxSteps);
  return Positive("epochs", job.epochs());
}

absl::Status ValidateEvaluation(const EvaluationSpec& evaluation) {
  TRIBUTARY_RETURN_IF_ERROR(Between("evaluation.every_steps",
                                    evaluation.every_steps(), 0, kMaxSteps));
  if (evaluation.disabled() && evaluation.every_steps() != 0) {
    return Error("evaluation.every_steps",
                 "has no effect while evaluation.disabled is true");
  }
  return Between("evaluation.batch", evaluation.batch(), 0, kMaxBatch);
}

absl::Status ValidateCheckpoint(const CheckpointSpec& checkpoint) {
  TRIBUTARY_RETURN_IF_ERROR(Between("checkpoint.every_steps",
                                    checkpoint.every_steps(), 0, kMaxSteps));
  TRIBUTARY_RETURN_IF_ERROR(
      NotNegative("checkpoint.every_seconds", checkpoint.every_seconds()));
  TRIBUTARY_RETURN_IF_ERROR(
      Between("checkpoint.keep_last", checkpoint.keep_last(), 0, kMaxSteps));
  return Between("checkpoint.keep_every", checkpoint.keep_every(), 0,
                 kMaxSteps);
}

// Checks a field whose value is a metric of evaluations.
absl::Status ValidateMetric(const JobSpec& job, const std::string& field,
                            EvaluationMetric::Name metric) {
  if (metric == EvaluationMetric::NAME_UNSPECIFIED) {
    return Error(field,
                 "is NAME_UNSPECIFIED; set it to EVALUATION_LOSS, "
                 "EVALUATION_ACCURACY or EVALUATION_AUC");
  }
  if (metric == EvaluationMetric::EVALUATION_AUC &&
      LossOfModel(job.model()) != ModelSpec::BINARY_CROSS_ENTROPY) {
    return Error(field,
                 "is EVALUATION_AUC, which only models with loss "
                 "BINARY_CROSS_ENTROPY have; use EVALUATION_LOSS");
  }
  if (metric == EvaluationMetric::EVALUATION_ACCURACY &&
      job.model().loss() == ModelSpec::MEAN_SQUARED_ERROR) {
    return Error(
        field,
        "is EVALUATION_ACCURACY, which a model with loss MEAN_SQUARED_ERROR "
        "does not have; use EVALUATION_LOSS");
  }
  if (job.evaluation().every_steps() == 0) {
    return Error(field,
                 "needs evaluations during training; set "
                 "evaluation.every_steps");
  }
  return absl::OkStatus();
}

absl::Status ValidateStop(const JobSpec& job) {
  if (!job.has_stop_when()) return absl::OkStatus();
  const StopSpec& stop = job.stop_when();
  TRIBUTARY_RETURN_IF_ERROR(
      ValidateMetric(job, "stop_when.metric", stop.metric()));
  TRIBUTARY_RETURN_IF_ERROR(
      Between("stop_when.patience", stop.patience(), 0, kMaxSteps));
  TRIBUTARY_RETURN_IF_ERROR(
      NotNegative("stop_when.min_delta", stop.min_delta()));
  if (stop.patience() == 0 && !stop.has_target()) {
    return Error("stop_when",
                 "never stops the job; set stop_when.patience, "
                 "stop_when.target, or both");
  }
  if (stop.patience() == 0 && stop.min_delta() > 0) {
    return Error("stop_when.min_delta",
                 "has no effect without stop_when.patience; leave it out");
  }
  return absl::OkStatus();
}

absl::Status ValidateTrace(const JobSpec& job) {
  const OutputSpec& output = job.output();
  if (!output.has_trace()) return absl::OkStatus();
  constexpr int64_t kMostTracedSteps = 1000;
  const TraceSpec& trace = output.trace();
  TRIBUTARY_RETURN_IF_ERROR(
      Between("output.trace.begin_step", trace.begin_step(), 0, kMaxSteps));
  if (!trace.has_begin_step() || trace.end_step() <= trace.begin_step() ||
      trace.end_step() - trace.begin_step() > kMostTracedSteps) {
    return Error("output.trace", "is from step ", trace.begin_step(),
                 " to step ", trace.end_step(),
                 ", expected begin_step and end_step with 1 to ",
                 kMostTracedSteps, " steps between them");
  }
  if (job.has_steps() && trace.begin_step() >= job.steps()) {
    return Error("output.trace.begin_step", trace.begin_step(),
                 " is not a step of this job, whose last step is ",
                 job.steps() - 1, " (counted from 0)");
  }
  return absl::OkStatus();
}

absl::Status ValidateOutput(const JobSpec& job) {
  const OutputSpec& output = job.output();
  if (output.has_directory() && output.directory().empty()) {
    return Error("output.directory", "is empty; leave it out for the default");
  }
  TRIBUTARY_RETURN_IF_ERROR(Between("output.log_every_steps",
                                    output.log_every_steps(), 1, kMaxSteps));
  TRIBUTARY_RETURN_IF_ERROR(ValidateTrace(job));
  return Between("output.sample_bytes", output.sample_bytes(), 0,
                 kMaxSampleBytes);
}

// Largest number of stages of a pipeline.
constexpr int kMaxPipelineStages = 64;
// Largest number of transfers of a kind at a boundary in a step.
constexpr int64_t kMaxStageTransfers = int64_t{1} << 30;

absl::Status ValidateName(const std::string& name) {
  if (name.size() > kMaxNameBytes) {
    return Error("name", "has ", name.size(), " bytes, at most ", kMaxNameBytes,
                 " are allowed");
  }
  // The default output folder is named after the job.
  if (name.find('/') != std::string::npos || name[0] == '.') {
    return Error("name", "must not contain / nor begin with a dot");
  }
  return absl::OkStatus();
}

absl::Status ValidatePipeline(const PipelineSpec& pipeline) {
  const std::string path = "parallel.pipeline";
  TRIBUTARY_RETURN_IF_ERROR(
      Between(path + ".stages", pipeline.stages(), 1, kMaxPipelineStages));
  if (pipeline.split_size() > 0 &&
      pipeline.split_size() != pipeline.stages() - 1) {
    return Error(path + ".split", "names ", pipeline.split_size(),
                 " layers, but ", pipeline.stages(), " stages need ",
                 pipeline.stages() - 1,
                 ": the first layer of each stage but "
                 "the first one");
  }
  return absl::OkStatus();
}

absl::Status ValidateShardedWeights(const JobSpec& job) {
  const std::string path = "parallel.sharded_weights";
  if (job.parallel().has_pipeline()) {
    return Error(
        path,
        "does not work with parallel.pipeline, whose stages would "
        "fetch their weights for each micro-batch; use one of the two");
  }
  if (job.precision() == JobSpec::BFLOAT16) {
    return Error(path, "does not work with precision BFLOAT16; use FLOAT32");
  }
  if (job.exchange().has_compression()) {
    return Error(path,
                 "does not work with exchange.compression, because weights are "
                 "fetched whole; leave one of the two out");
  }
  if (job.exchange().transport() == ExchangeSpec::MEMORY) {
    return Error(
        path,
        "does not work with exchange.transport MEMORY; leave transport "
        "out");
  }
  return absl::OkStatus();
}

// Checks a pipeline whose micro-batches take local steps.
absl::Status ValidateLocalStages(const JobSpec& job) {
  const std::string path = "parallel.pipeline";
  if (job.clip_norm() > 0) {
    return Error(path,
                 "does not work with clip_norm in consistency mode "
                 "local_steps, because each local step would wait for the norm "
                 "over all stages; leave one of the two out");
  }
  if (job.precision() == JobSpec::BFLOAT16) {
    return Error(path,
                 "does not work with precision BFLOAT16 in consistency mode "
                 "local_steps; use FLOAT32");
  }
  const int64_t steps = ResolveExchange(job).steps_per_round;
  // The number of micro-batches may not be known yet.
  if (steps * std::max<int64_t>(job.batch().micro_batches(), 1) >
      kMaxStageTransfers) {
    return Error(
        "exchange.parameter_server.consistency.local_steps.inner_steps", steps,
        " is too large for parallel.pipeline; at most ", kMaxStageTransfers,
        " steps times micro-batches are allowed in a round");
  }
  return absl::OkStatus();
}

absl::Status ValidateParts(const JobSpec& job) {
  const std::string path = job.parallel().has_pipeline()
                               ? "parallel.pipeline"
                               : "parallel.sharded_weights";
  const ExchangeTraits traits = ResolveExchange(job);
  const bool stages = job.parallel().has_pipeline();
  if (!traits.one_version_per_round ||
      (!stages && (!traits.servers_update || traits.local_sgd))) {
    return Error(path,
                 stages ? "needs exchange.all_reduce, or "
                          "exchange.parameter_server with consistency mode "
                          "synchronous or local_steps"
                        : "needs exchange.parameter_server with consistency "
                          "mode synchronous",
                 "; leave it out, or change exchange");
  }
  if (job.optimizer().has_program()) {
    return Error(path,
                 "does not work with optimizer.program, whose rule needs all "
                 "parameters; leave one of the two out");
  }
  if (job.exchange().all_reduce().backend() == AllReduceSpec::NCCL) {
    return Error("exchange.all_reduce.backend",
                 "is NCCL, but parallel.pipeline computes on CPUs; use GLOO");
  }
  if (traits.local_sgd) TRIBUTARY_RETURN_IF_ERROR(ValidateLocalStages(job));
  if (job.model().has_synthetic()) {
    return Error(path,
                 "needs a model with layers; leave it out with "
                 "model.synthetic");
  }
  if (ReadsFeatures(job.model())) {
    return Error(path, "does not work with model.", ModelKind(job),
                 ", which reads features; leave it out");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateJob(const JobSpec& original) {
  TRIBUTARY_RETURN_IF_ERROR(ValidateValues(original, ""));
  JobSpec job = original;
  if (job.model().has_gpt()) {
    ApplyGptPreset(job.mutable_model()->mutable_gpt());
  }
  TRIBUTARY_RETURN_IF_ERROR(ValidateName(job.name()));
  TRIBUTARY_RETURN_IF_ERROR(ValidateModel(job.model()));
  TRIBUTARY_RETURN_IF_ERROR(ValidateModelMemory(job));
  TRIBUTARY_RETURN_IF_ERROR(ValidateData(job));
  TRIBUTARY_RETURN_IF_ERROR(ValidateBatch(job.batch()));
  TRIBUTARY_RETURN_IF_ERROR(Optimizer::Create(job.optimizer()).status());
  if (job.optimizer().has_program()) {
    TRIBUTARY_RETURN_IF_ERROR(ValidateProgramRule(job));
  }
  // The final average is read from the last checkpoint, which has all state.
  if (job.optimizer().average_decay() > 0 && !TakesCheckpoints(job)) {
    return Error("optimizer.average_decay",
                 "needs checkpoints, from which the final average is read; set "
                 "checkpoint.every_steps or checkpoint.every_seconds above 0");
  }
  TRIBUTARY_RETURN_IF_ERROR(ValidateLength(job));
  TRIBUTARY_RETURN_IF_ERROR(ValidateSchedule(job));
  TRIBUTARY_RETURN_IF_ERROR(NotNegative("clip_norm", job.clip_norm()));
  TRIBUTARY_RETURN_IF_ERROR(ValidateEvaluation(job.evaluation()));
  TRIBUTARY_RETURN_IF_ERROR(ValidateExchange(job.exchange()));
  // Delayed updates accumulate: running statistics would overshoot the values
  // that they average, and a variance could become negative.
  if (job.model().has_resnet() && job.exchange().has_compression()) {
    return Error("exchange.compression",
                 "does not work with model.resnet, whose batch norm's "
                 "statistics must not come late; leave it out");
  }
  TRIBUTARY_RETURN_IF_ERROR(ValidateStop(job));
  TRIBUTARY_RETURN_IF_ERROR(ValidateCheckpoint(job.checkpoint()));
  if (job.checkpoint().has_best()) {
    TRIBUTARY_RETURN_IF_ERROR(
        ValidateMetric(job, "checkpoint.best", job.checkpoint().best()));
  }
  TRIBUTARY_RETURN_IF_ERROR(ValidateRecovery(job));
  if (job.parallel().has_pipeline()) {
    TRIBUTARY_RETURN_IF_ERROR(ValidatePipeline(job.parallel().pipeline()));
  }
  if (job.parallel().sharded_weights()) {
    TRIBUTARY_RETURN_IF_ERROR(ValidateShardedWeights(job));
  }
  if (ComputesInParts(job)) TRIBUTARY_RETURN_IF_ERROR(ValidateParts(job));
  if (job.on_nonfinite() == JobSpec::SKIP && job.exchange().has_compression()) {
    return Error("on_nonfinite",
                 "SKIP does not work with exchange.compression, which keeps "
                 "what it left out of a gradient for the next; use STOP");
  }
  TRIBUTARY_RETURN_IF_ERROR(ValidateSparse(job));
  TRIBUTARY_RETURN_IF_ERROR(ValidateModelFeatures(job));
  return ValidateOutput(job);
}

}  // namespace tributary
