#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>

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
      "time on this machine, which takes about a second, or as long as a "
      "micro-batch of a large model. Traffic for in-memory replicas "
      "(recovery.journal) is not included.",
      std::vector<CommandLine::Example>{
          {"plan JOB.textproto --workers 8 --bandwidth 10Gbit",
           "Eight hosts with a worker each, and one server host."},
          {"plan JOB.textproto --workers 8 --servers 4 --compute 120",
           "With a known computing time of 120 ms per step."}});
  line->SetOperand(/*required=*/false, &flags->source.path);
  line->AddInteger("workers", "Workers, each on a host of its own. Default 2.",
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
                  "Computing time of a worker in a step, in milliseconds. "
                  "Default: measured on this machine.",
                  0, 1e9, &flags->compute_ms);
  AddSetFlag(line.get(), "batch.global=64", &flags->source.sets);
  line->AddSwitch("json", "Print one JSON object.", &flags->json);
  return line;
}

absl::StatusOr<PlanInputs> MakeInputs(const CommandLine& line,
                                      const PlanFlags& flags,
                                      const TrainingSources& sources) {
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
  const int64_t micro_batches = inputs.job.batch().micro_batches();
  const int64_t useful =
      std::max<int64_t>(1, (micro_batches + flags.workers - 1) / flags.workers);
  inputs.threads = static_cast<int>(
      flags.threads > 0 ? flags.threads
                        : std::min<int64_t>(inputs.cores, useful));
  const int threads = std::min(inputs.threads, inputs.cores);
  TRIBUTARY_ASSIGN_OR_RETURN(
      const std::unique_ptr<TrainingSetup> setup,
      TrainingSetup::Create(inputs.job, threads, &MakeCpuDevice, sources));
  const ArenaLayout& layout = setup->layout();
  inputs.parameters = layout.parameter_count();
  for (int chunk = 0; chunk < layout.chunk_count(); ++chunk) {
    inputs.chunk_elements.push_back(layout.ChunkSize(chunk));
  }
  if (line.OriginOf("compute").empty()) {
    std::once_flag told;
    const Pulse slow(kSilence, [&told] {
      std::call_once(told, [] {
        std::fputs(
            "tributary: still measuring the computing time of a micro-batch on "
            "this machine; --compute MS skips this\n",
            stderr);
      });
    });
    TRIBUTARY_ASSIGN_OR_RETURN(inputs.micro_batch, TimeMicroBatch(*setup));
  } else {
    inputs.micro_batch = EvenProfile(1e-3 * flags.compute_ms / Turns(inputs),
                                     inputs.chunk_elements);
  }
  inputs.server_threads = DefaultServerThreads(inputs.cores);
  TRIBUTARY_ASSIGN_OR_RETURN(
      const PassTiming pass,
      TimePass(JobOfRounds(inputs.job).optimizer(), layout.arena_elements(),
               inputs.server_threads));
  inputs.update_seconds_per_element = pass.update;
  inputs.pass_seconds_per_element =
      pass.update + (inputs.workers - 1) * pass.contribution;
  return inputs;
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
  const absl::StatusOr<PlanInputs> inputs = MakeInputs(*line, flags, sources);
  if (!inputs.ok()) return ReportError(inputs.status());
  const absl::StatusOr<ExchangePlan> plan = PlanExchange(*inputs);
  if (!plan.ok()) return ReportError(plan.status());
  if (flags.json) {
    std::printf("%s\n", PlanJson(*inputs, *plan).dump().c_str());
  } else {
    std::fputs(FormatPlan(*inputs, *plan).c_str(), stdout);
  }
  return kExitDone;
}

}  // namespace tributary
