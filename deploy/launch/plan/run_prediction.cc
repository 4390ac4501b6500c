#include "deploy/launch/plan/run_prediction.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/job/exchange_traits.h"
#include "common/job/job.h"
#include "common/pipeline/pipeline_schedule.h"
#include "common/plan/step_model.h"
#include "deploy/launch/plan/exchange_plan.h"
#include "deploy/launch/plan/pipeline_shape.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

// CPU seconds per byte through gRPC, at both ends and in the kernel.
constexpr double kTcpSecondsPerByte = 0.8e-9;
constexpr double kUnixSecondsPerByte = 0.5e-9;
// CPU seconds per byte through Gloo's TCP transport.
constexpr double kGlooSecondsPerByte = 0.6e-9;

struct Measured {
  double forward = 0;  // In seconds per step.
  double compute = 0;
};

// Returns the times of the worker that computed longest.
Measured SlowestWorker(const nlohmann::ordered_json& summary) {
  Measured slowest;
  const auto processes = summary.find("processes");
  if (processes == summary.end()) return slowest;
  for (const nlohmann::ordered_json& process : *processes) {
    if (process.value("role", "") != "worker") continue;
    const double steps = process.value("steps", 0.0);
    if (steps <= 0) continue;
    const double compute = process.value("compute_seconds", 0.0) / steps;
    if (compute < slowest.compute) continue;
    slowest = {process.value("forward_seconds", 0.0) / steps, compute};
  }
  return slowest;
}

// Returns the number of workers whose gradients a server adds for a chunk.
int Contributors(const LocalRun& run) {
  return run.job.parallel().has_pipeline()
             ? PipelineShapeOf(run.job, run.workers).replicas
             : run.workers;
}

// Returns the time in a step for which the slowest stage of a pipeline, with
// the times `slowest`, waits for other stages.
double PipelineIdleSeconds(const LocalRun& run, const Measured& slowest) {
  if (!run.job.parallel().has_pipeline()) return 0;
  const PipelineShape shape = PipelineShapeOf(run.job, run.workers);
  const double backward = slowest.compute - slowest.forward;
  PassSeconds seconds = {slowest.forward / shape.micro_batches,
                         backward / 2 / shape.micro_batches,
                         backward / 2 / shape.micro_batches};
  return TraitsOf(shape.schedule)
      .idle_seconds(shape.stages, shape.micro_batches, seconds);
}

std::vector<int64_t> EqualChunks(const JobSpec& job, int64_t parameters) {
  const int64_t size =
      ChunkBytes(job.exchange()) / static_cast<int64_t>(sizeof(float));
  std::vector<int64_t> chunks(parameters / size, size);
  if (parameters % size > 0) chunks.push_back(parameters % size);
  return chunks;
}

}  // namespace

int UpdatingThreads(const LocalRun& run) {
  // An all-reduce runs it on one thread in each worker.
  return ResolveExchange(run.job).servers_update
             ? run.servers * run.server_threads
             : run.workers;
}

absl::optional<PlanInputs> InputsFromRun(const LocalRun& run,
                                         const nlohmann::ordered_json& summary,
                                         const PassTiming& pass) {
  const auto parameters = summary.value("parameters", int64_t{0});
  const Measured measured = SlowestWorker(summary);
  if (parameters == 0 || measured.compute <= 0) return absl::nullopt;
  PlanInputs inputs;
  inputs.job = run.job;
  inputs.parameters = parameters;
  inputs.chunk_elements = EqualChunks(run.job, parameters);
  inputs.workers = run.workers;
  inputs.servers = run.servers;
  inputs.threads = run.threads;
  inputs.server_threads = UpdatingThreads(run);
  // The measured computing time includes waiting for cores, so the model
  // assumes a core for each thread.
  inputs.cores = run.workers * run.threads + inputs.server_threads;
  inputs.micro_batch =
      EvenProfile(measured.compute / Turns(inputs), inputs.chunk_elements,
                  measured.forward / measured.compute);
  inputs.pass_seconds_per_element =
      pass.update + (Contributors(run) - 1) * pass.contribution;
  inputs.update_seconds_per_element = pass.update;
  return inputs;
}

absl::optional<nlohmann::ordered_json> PredictLocalRun(
    const LocalRun& run, const nlohmann::ordered_json& summary,
    const PassTiming& pass) {
  absl::optional<PlanInputs> inputs = InputsFromRun(run, summary, pass);
  if (!inputs.has_value()) return absl::nullopt;
  const char* way = "memory";
  const ExchangeSpec& exchange = run.job.exchange();
  if (ResolveExchange(run.job).workers_exchange_directly) {
    way = "tcp";
    inputs->socket_seconds_per_byte = kGlooSecondsPerByte;
  } else if (exchange.transport() == ExchangeSpec::WIRE) {
    way = "tcp";
    inputs->socket_seconds_per_byte = kTcpSecondsPerByte;
  } else if (exchange.transport() == ExchangeSpec::UNIX_SOCKET ||
             exchange.has_compression()) {
    way = "unix_socket";
    inputs->socket_seconds_per_byte = kUnixSecondsPerByte;
  }
  const PlannedExchange planned = PlanOneHost(*inputs);
  // The CPU time of sockets overlaps with computation to the extent that cores
  // are idle.
  const double busy =
      std::min(1.0, static_cast<double>(run.workers * run.threads) / run.cores);
  const double sockets = 2 * planned.link_seconds / run.cores;
  const double at_once = StepsAtOnce(run.job, run.workers);
  const double compute = Turns(*inputs) * inputs->micro_batch.seconds;
  const double step =
      std::max(planned.step_seconds, compute / at_once + busy * sockets) +
      PipelineIdleSeconds(run, SlowestWorker(summary));
  return nlohmann::ordered_json{
      {"step_milliseconds", 1e3 * step},
      {"compute_milliseconds", 1e3 * compute},
      {"pass_milliseconds", 1e3 * planned.pass_seconds},
      {"transport", way},
      {"transport_milliseconds", 1e3 * planned.link_seconds},
      {"held_up_by", planned.bottleneck}};
}

}  // namespace tributary
