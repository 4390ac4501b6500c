#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/pulse.h"
#include "common/base/status_macros.h"
#include "common/job/job.h"
#include "common/job/rounds.h"
#include "common/os/process.h"
#include "common/plan/bandwidth.h"
#include "deploy/commands/server_command.h"
#include "deploy/commands/subcommands.h"
#include "deploy/flags/command_line.h"
#include "deploy/flags/exit_code.h"
#include "deploy/flags/job_source.h"
#include "deploy/launch/plan/exchange_plan.h"
#include "deploy/launch/plan/local_timing.h"
#include "deploy/launch/plan/memory_fit.h"
#include "deploy/launch/plan/pipeline_inputs.h"
#include "deploy/launch/plan/pipeline_plan.h"
#include "deploy/launch/plan/pipeline_report.h"
#include "deploy/launch/plan/pipeline_shape.h"
#include "nlohmann/json.hpp"
#include "worker/training/training_setup.h"
#include "worker/training/training_sources.h"

namespace tributary {
namespace {

// A measurement that takes longer is announced.
constexpr absl::Duration kSilence = absl::Seconds(5);

struct PlanFlags {
  JobSource source;
  int64_t workers = 2;
  int64_t servers = 1;
  int64_t threads = 0;  // 0: not set.
  std::string bandwidth = "10Gbit";
  double compute_ms = 0;
  bool json = false;
};

std::unique_ptr<CommandLine> MakeCommandLine(PlanFlags* flags) {
  auto line = std::make_unique<CommandLine>(
      "plan", "[JOB.textproto]",
      "Predicts the bytes through the busiest link, the step time and the "
      "bottleneck of a job on a cluster: with one server, several servers, "
      "servers on the workers' hosts, and all-reduce. Measures the computing "
      "time on this machine, which takes one to ten seconds, or as long as a "
      "micro-batch of a large model. For a job with parallel.pipeline, "
      "predicts the stages, the bubble and the step time, with and without "
      "the pipeline. Traffic for in-memory replicas (recovery.journal) is not "
      "included.",
      std::vector<CommandLine::Example>{
          {"plan JOB.textproto --workers 8 --bandwidth 10Gbit",
           "Eight hosts with a worker each, and one server host."},
          {"plan JOB.textproto --workers 8 --servers 4 --compute 120",
           "With a known computing time of 120 ms per step."}});
  line->SetOperand(/*required=*/false, &flags->source.path);
  line->AddInteger("workers",
                   "Workers, each on a host of its own. Default 2, or one for "
                   "each stage of a pipeline.",
                   1, kMaxMicroBatches, &flags->workers);
  line->AddInteger("servers", "Servers. Default 1.", 1, 256, &flags->servers);
  line->AddText("bandwidth", "SPEED",
                "Bandwidth of each host's link in each direction, as in "
                "10Gbit, 800Mbit or 3GB/s. Default 10Gbit.",
                &flags->bandwidth);
  line->AddInteger(
      "threads",
      "Compute threads of each worker. Default: this machine's cores.", 1, 1024,
      &flags->threads);
  line->AddNumber("compute",
                  "Computing time of a worker in a step, in milliseconds, for "
                  "jobs without parallel.pipeline. Default: measured on this "
                  "machine.",
                  0, 1e9, &flags->compute_ms);
  AddSetFlag(line.get(), "batch.global=64", &flags->source.sets);
  line->AddSwitch("json", "Print one JSON object.", &flags->json);
  return line;
}

// Returns the inputs that are not measured: the job, and what the flags say.
absl::StatusOr<PlanInputs> ReadInputs(const CommandLine& line,
                                      const PlanFlags& flags) {
  PlanInputs inputs;
  const absl::StatusOr<double> bandwidth = ParseBandwidth(flags.bandwidth);
  if (!bandwidth.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        line.OriginOf("bandwidth"), ": ", bandwidth.status().message()));
  }
  inputs.bandwidth = *bandwidth;
  TRIBUTARY_ASSIGN_OR_RETURN(inputs.job, ReadJob(flags.source));
  inputs.workers = static_cast<int>(flags.workers);
  inputs.servers = static_cast<int>(flags.servers);
  inputs.cores = UsableCores();
  inputs.server_threads = DefaultServerThreads(inputs.cores);
  return inputs;
}

void ReadLayout(const ArenaLayout& layout, PlanInputs* inputs) {
  inputs->parameters = layout.parameter_count();
  inputs->chunk_elements.clear();
  for (int chunk = 0; chunk < layout.chunk_count(); ++chunk) {
    inputs->chunk_elements.push_back(layout.ChunkSize(chunk));
  }
}

// Measures a server that adds the gradients of `contributors` workers.
absl::Status MeasurePass(const ArenaLayout& layout, int contributors,
                         PlanInputs* inputs) {
  TRIBUTARY_ASSIGN_OR_RETURN(
      const PassTiming pass,
      TimePass(JobOfRounds(inputs->job).optimizer(), layout.arena_elements(),
               inputs->server_threads));
  inputs->update_seconds_per_element = pass.update;
  inputs->pass_seconds_per_element =
      pass.update + (contributors - 1) * pass.contribution;
  return absl::OkStatus();
}

// Says, on stderr, that a measurement takes long.
class SlowNotice {
 public:
  explicit SlowNotice(const char* text)
      : text_(text), slow_(kSilence, [this] {
          std::call_once(told_, [this] { std::fputs(text_, stderr); });
        }) {}

 private:
  const char* const text_;
  std::once_flag told_;
  const Pulse slow_;
};

// Measures the computing time of a worker that computes the whole model. See
// TimeMicroBatch for `clock`.
absl::Status Measure(const CommandLine& line, const PlanFlags& flags,
                     const TrainingSources& sources, TimingClock clock,
                     PlanInputs* inputs) {
  const int64_t micro_batches = inputs->job.batch().micro_batches();
  const int64_t useful = std::max<int64_t>(
      1, (micro_batches + inputs->workers - 1) / inputs->workers);
  inputs->threads = static_cast<int>(
      flags.threads > 0 ? flags.threads
                        : std::min<int64_t>(inputs->cores, useful));
  const int threads = std::min(inputs->threads, inputs->cores);
  TRIBUTARY_ASSIGN_OR_RETURN(
      const std::unique_ptr<TrainingSetup> setup,
      TrainingSetup::Create(JobOfWholeModel(inputs->job), threads,
                            &MakeCpuDevice, sources));
  ReadLayout(setup->layout(), inputs);
  if (line.OriginOf("compute").empty()) {
    SlowNotice notice(
        "tributary: still measuring the computing time of a micro-batch on "
        "this machine; --compute MS skips this\n");
    TRIBUTARY_ASSIGN_OR_RETURN(inputs->micro_batch,
                               TimeMicroBatch(*setup, clock));
  } else {
    inputs->micro_batch = EvenProfile(1e-3 * flags.compute_ms / Turns(*inputs),
                                      inputs->chunk_elements);
  }
  FitInputs hosts;
  hosts.job = inputs->job;
  hosts.workers = inputs->workers;
  hosts.servers = inputs->servers;
  hosts.threads = inputs->threads;
  hosts.one_host = false;
  TRIBUTARY_ASSIGN_OR_RETURN(
      const HostMemory memory,
      PlanHostMemory(hosts, setup->data().info(), setup->data_bytes(),
                     setup->facts().evaluation_pieces() > 0,
                     setup->device(/*thread=*/0), sources));
  inputs->server_memory = memory.server;
  inputs->worker_memory = memory.worker;
  return MeasurePass(setup->layout(), inputs->workers, inputs);
}

// Measures the layers of a pipeline.
absl::StatusOr<PipelineInputs> MeasurePipelineInputs(
    const CommandLine& line, const PlanFlags& flags,
    const TrainingSources& sources, PlanInputs exchange) {
  if (!line.OriginOf("compute").empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        line.OriginOf("compute"),
        ": does not apply to a job with parallel.pipeline, whose layers are "
        "measured one by one; leave it out"));
  }
  if (line.OriginOf("workers").empty()) {
    exchange.workers =
        std::max(exchange.workers, exchange.job.parallel().pipeline().stages());
  }
  TRIBUTARY_RETURN_IF_ERROR(
      CheckPipelineWorkers(exchange.job, exchange.workers));
  PipelineInputs inputs;
  {
    SlowNotice notice(
        "tributary: still measuring the layers on this machine\n");
    TRIBUTARY_ASSIGN_OR_RETURN(
        const std::unique_ptr<TrainingSetup> setup,
        TrainingSetup::Create(exchange.job, /*threads=*/1, &MakeCpuDevice,
                              sources));
    TRIBUTARY_ASSIGN_OR_RETURN(inputs, MeasurePipeline(*setup));
    ReadLayout(setup->layout(), &exchange);
    TRIBUTARY_RETURN_IF_ERROR(MeasurePass(
        setup->layout(),
        PipelineShapeOf(exchange.job, exchange.workers).replicas, &exchange));
  }
  if (inputs.whole_bytes <= inputs.free_bytes) {
    PlanInputs whole = exchange;
    whole.job = JobOfWholeModel(std::move(whole.job));
    whole.workers = static_cast<int>(
        std::min<int64_t>(whole.workers, whole.job.batch().micro_batches()));
    // Other programs hardly change the times of layers, which are short.
    const absl::Status measured =
        Measure(line, flags, sources, TimingClock::kThreadCpu, &whole);
    if (!measured.ok() && !absl::IsResourceExhausted(measured)) return measured;
    if (measured.ok()) {
      TRIBUTARY_RETURN_IF_ERROR(
          ScaleLayers(whole.micro_batch.seconds, &inputs.stages));
      inputs.whole = std::move(whole);
    }
  }
  inputs.exchange = std::move(exchange);
  return inputs;
}

void Print(const PlanFlags& flags, const std::string& text,
           const nlohmann::ordered_json& json) {
  std::fputs(
      flags.json ? absl::StrCat(json.dump(), "\n").c_str() : text.c_str(),
      stdout);
}

absl::Status RunPlan(const CommandLine& line, const PlanFlags& flags,
                     const TrainingSources& sources) {
  TRIBUTARY_ASSIGN_OR_RETURN(PlanInputs inputs, ReadInputs(line, flags));
  if (inputs.job.parallel().has_pipeline()) {
    TRIBUTARY_ASSIGN_OR_RETURN(
        const PipelineInputs pipeline,
        MeasurePipelineInputs(line, flags, sources, std::move(inputs)));
    TRIBUTARY_ASSIGN_OR_RETURN(const PipelinePlan plan, PlanPipeline(pipeline));
    Print(flags, FormatPipelinePlan(pipeline, plan),
          PipelinePlanJson(pipeline, plan));
    return absl::OkStatus();
  }
  TRIBUTARY_RETURN_IF_ERROR(
      Measure(line, flags, sources, TimingClock::kWall, &inputs));
  TRIBUTARY_ASSIGN_OR_RETURN(const ExchangePlan plan, PlanExchange(inputs));
  Print(flags, FormatPlan(inputs, plan), PlanJson(inputs, plan));
  return absl::OkStatus();
}

}  // namespace

int RunPlanCommand(const std::vector<std::string>& arguments,
                   const Environment& environment,
                   const TrainingSources& sources) {
  PlanFlags flags;
  const std::unique_ptr<CommandLine> line = MakeCommandLine(&flags);
  if (const auto code = line->ParseOrAnswer(arguments, environment)) {
    return *code;
  }
  const absl::Status done = RunPlan(*line, flags, sources);
  return done.ok() ? kExitDone : ReportError(done);
}

}  // namespace tributary
