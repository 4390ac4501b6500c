#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "deploy/flags/command_line.h"
#include "deploy/flags/device_flag.h"
#include "deploy/flags/exit_code.h"
#include "deploy/flags/job_source.h"
#include "deploy/flags/signal_queue.h"
#include "deploy/tools/bench/bench_command.h"
#include "deploy/tools/bench/bench_jobs.h"
#include "deploy/tools/bench/bench_step.h"
#include "nlohmann/json.hpp"
#include "proto/job.pb.h"
#include "worker/device/factory/device_factory.h"
#include "worker/training/training_sources.h"

namespace tributary {
namespace {

// Number of rounds, which time a step with and without exchange alternately.
// The cost is a difference, and the speed of the machine drifts.
constexpr int kRounds = 3;

// The least that --seconds accepts, also of the processes that measure a round.
constexpr double kMinSeconds = 0.1;

struct BenchStepFlags {
  std::string model;
  std::string mode = "single";
  int64_t workers = 2;
  int64_t threads = 1;
  int64_t batch = 0;
  std::string device;
  DeviceName chosen;  // The resolved value of `device`.
  std::string server_device;
  double seconds = 4;
  bool json = false;
  std::vector<std::string> sets;
};

std::unique_ptr<CommandLine> MakeCommandLine(BenchStepFlags* flags) {
  auto line = std::make_unique<CommandLine>(
      "bench step", "MODEL",
      absl::StrCat("Times one training step of ",
                   absl::StrJoin(BenchModels(), ", "),
                   " on random inputs in memory."),
      std::vector<CommandLine::Example>{
          {"bench step gpt", "Use one process, which also runs the optimizer."},
          {"bench step bigmlp --mode exchange",
           "Use a server and two workers, and report the cost of the "
           "exchange."}});
  line->SetOperand(/*required=*/true, &flags->model);
  line->AddChoice("mode", {"single", "independent", "exchange"},
                  "single: one process. independent: --workers processes "
                  "without exchange. exchange: a server and the workers; also "
                  "reports exchange_cost_ms, the median step time minus that "
                  "of independent processes, and, on the CPU, "
                  "in_process_cost_ms, with server and workers in one "
                  "process; all measured alternately.",
                  &flags->mode);
  line->AddInteger("workers", "Worker processes. Default 2.", 1, 64,
                   &flags->workers);
  line->AddInteger("threads", "Compute threads of each worker. Default 1.", 1,
                   256, &flags->threads);
  AddDeviceFlag(line.get(), "cpu", &flags->device);
  AddServerDeviceFlag(line.get(), "server-device", &flags->server_device);
  line->AddInteger("batch", "Samples per worker. Default: the model's.", 0,
                   1 << 20, &flags->batch);
  line->AddNumber("seconds", "Seconds to measure. Default 4.", kMinSeconds,
                  3600, &flags->seconds);
  AddSetFlag(line.get(), "exchange.transport=WIRE", &flags->sets);
  line->AddSwitch("json", "Print one JSON object.", &flags->json);
  return line;
}

BenchLoad LoadOf(const BenchStepFlags& flags) {
  BenchLoad load;
  load.model = flags.model;
  load.batch_per_worker = flags.batch;
  load.workers = static_cast<int>(flags.workers);
  load.threads = static_cast<int>(flags.threads);
  load.device = flags.chosen;
  load.server_device = flags.server_device;
  load.sets = flags.sets;
  return load;
}

const char* PrecisionName(const JobSpec& job) {
  switch (job.precision()) {
    case JobSpec::BFLOAT16:
      return "bf16";
    case JobSpec::TF32:
      return "tf32";
    default:
      return "fp32";
  }
}

nlohmann::ordered_json Describe(const BenchStepFlags& flags, const JobSpec& job,
                                const StepTiming& timing) {
  const int64_t workers = flags.mode == "single" ? 1 : flags.workers;
  return {{"system", "tributary"},
          {"model", flags.model},
          {"mode", flags.mode},
          {"workers", workers},
          {"threads", flags.threads},
          {"precision", PrecisionName(job)},
          {"device", FormatDeviceName(flags.chosen)},
          {"server_device", flags.server_device},
          {"parameters", timing.parameters},
          {"batch_per_worker", timing.batch_per_worker},
          {"steps", timing.steps},
          {"median_ms", timing.median_ms},
          {"min_ms", timing.min_ms},
          {"samples_per_second",
           1e3 * static_cast<double>(workers * timing.batch_per_worker) /
               timing.median_ms},
          {"cpu_ms_per_step_per_worker", timing.cpu_ms_per_step_per_worker}};
}

// Returns the round with the median time.
StepTiming MedianRound(std::vector<StepTiming> rounds) {
  const auto middle = rounds.begin() + rounds.size() / 2;
  std::nth_element(rounds.begin(), middle, rounds.end(),
                   [](const StepTiming& a, const StepTiming& b) {
                     return a.median_ms < b.median_ms;
                   });
  return *middle;
}

absl::StatusOr<nlohmann::ordered_json> Measure(const BenchStepFlags& flags,
                                               const TrainingSources& sources) {
  BenchLoad load = LoadOf(flags);
  // Reports invalid flags before it starts a child process.
  TRIBUTARY_ASSIGN_OR_RETURN(const JobSpec job, BenchJob(load));
  if (flags.mode == "single") {
    TRIBUTARY_ASSIGN_OR_RETURN(const StepTiming timing,
                               TimeSingleStep(load, flags.seconds, sources));
    return Describe(flags, job, timing);
  }
  SignalQueue signals(/*with_children=*/true);
  const double seconds = std::max(kMinSeconds, flags.seconds / kRounds);
  std::vector<StepTiming> apart;
  std::vector<StepTiming> together;
  std::vector<StepTiming> in_process;
  const bool on_cpu = flags.chosen.kind == DeviceName::Kind::kCpu &&
                      flags.server_device == "cpu";
  for (int round = 0; round < kRounds; ++round) {
    TRIBUTARY_ASSIGN_OR_RETURN(const StepTiming independent,
                               TimeIndependentSteps(load, seconds, &signals));
    apart.push_back(independent);
    if (flags.mode == "independent") continue;
    load.steps = std::max<int64_t>(
        20, static_cast<int64_t>(1e3 * seconds / independent.median_ms));
    TRIBUTARY_ASSIGN_OR_RETURN(const StepTiming exchange,
                               TimeExchangeSteps(load, &signals));
    together.push_back(exchange);
    if (!on_cpu) continue;
    TRIBUTARY_ASSIGN_OR_RETURN(
        const StepTiming threads,
        TimeExchangeSteps(load, &signals, /*in_process=*/true));
    in_process.push_back(threads);
  }
  const StepTiming independent = MedianRound(apart);
  if (flags.mode == "independent") return Describe(flags, job, independent);
  const StepTiming exchange = MedianRound(together);
  nlohmann::ordered_json result = Describe(flags, job, exchange);
  result["independent_median_ms"] = independent.median_ms;
  result["exchange_cost_ms"] = exchange.median_ms - independent.median_ms;
  if (!in_process.empty()) {
    const double median_ms = MedianRound(in_process).median_ms;
    result["in_process_median_ms"] = median_ms;
    result["in_process_cost_ms"] = median_ms - independent.median_ms;
  }
  return result;
}

void Print(const BenchStepFlags& flags, nlohmann::ordered_json result) {
  for (auto& [key, value] : result.items()) {
    if (value.is_number_float()) {
      value = std::round(value.get<double>() * 1e3) / 1e3;
    }
  }
  if (flags.json) {
    std::printf("%s\n", result.dump().c_str());
    return;
  }
  for (const auto& [key, value] : result.items()) {
    std::printf("%-28s %s\n", key.c_str(),
                value.is_string() ? value.get<std::string>().c_str()
                                  : value.dump().c_str());
  }
}

}  // namespace

int RunBenchStepCommand(const std::vector<std::string>& arguments,
                        const Environment& environment,
                        const TrainingSources& sources) {
  BenchStepFlags flags;
  const std::unique_ptr<CommandLine> line = MakeCommandLine(&flags);
  if (const auto code = line->ParseOrAnswer(arguments, environment)) {
    return *code;
  }
  std::string remark;
  const absl::StatusOr<DeviceName> device =
      ChooseDevice(flags.device, /*place=*/0, ListedGpus(), &remark);
  if (!device.ok()) return ReportError(device.status());
  flags.chosen = *device;
  if (flags.server_device != "cpu" && flags.mode != "exchange") {
    return ReportError(absl::InvalidArgumentError(
        "--server-device: only --mode exchange has a server"));
  }
  const absl::StatusOr<DeviceName> server_device = ChooseDevice(
      flags.server_device, /*place=*/0, ListedGpus(), &remark, "server-device");
  if (!server_device.ok()) return ReportError(server_device.status());
  flags.server_device = DeviceOfAll(flags.server_device, *server_device);
  absl::StatusOr<nlohmann::ordered_json> result = Measure(flags, sources);
  if (!result.ok()) return ReportError(result.status());
  Print(flags, *std::move(result));
  return kExitDone;
}

}  // namespace tributary
