#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/status_macros.h"
#include "common/job/job.h"
#include "common/text/counted.h"
#include "deploy/commands/subcommands.h"
#include "deploy/flags/command_line.h"
#include "deploy/flags/device_flag.h"
#include "deploy/flags/exit_code.h"
#include "deploy/flags/job_source.h"
#include "deploy/flags/output_directory.h"
#include "deploy/flags/signal_queue.h"
#include "deploy/flags/thread_counts.h"
#include "deploy/launch/job/progress_display.h"
#include "deploy/tools/compare/comparison.h"
#include "deploy/tools/compare/comparison_report.h"
#include "deploy/tools/compare/comparison_run.h"
#include "deploy/tools/compare/exchange_variants.h"

namespace tributary {
namespace {

struct CompareFlags {
  JobSource source;
  std::string exchanges;
  int64_t workers = 2;
  int64_t servers = 0;  // 0: not set.
  int64_t threads = 0;  // 0: not set.
  std::string device;
  std::string server_device;
  std::string output;
  bool overwrite = false;
  bool quiet = false;
};

std::unique_ptr<CommandLine> MakeCommandLine(CompareFlags* flags) {
  auto line = std::make_unique<CommandLine>(
      "compare", "[JOB.textproto]",
      "Trains a job on this machine with one exchange after another, using the "
      "same steps and data, and reports the time and its components, the bytes "
      "and memory of each process, and the loss. Writes the report to "
      "compare.md, a picture to compare.svg, and all figures to compare.json. "
      "Evaluates each run only at its end, and keeps no models.",
      std::vector<CommandLine::Example>{
          {"compare examples/bigmlp.textproto",
           "Compare all exchanges that the job allows, with two workers."},
          {"compare JOB.textproto --steps 300 --exchanges "
           "synchronous,all_reduce",
           "Compare two exchanges for 300 steps."},
          {"compare JOB.textproto --set exchange.transport=WIRE",
           "Use TCP instead of shared memory."}});
  line->SetOperand(/*required=*/false, &flags->source.path);
  line->AddText("exchanges", "NAMES",
                absl::StrCat("Exchanges to compare, separated by commas: ",
                             absl::StrJoin(ExchangeNames(), ", "),
                             ". Default: all that the job allows, but pipeline "
                             "only if the job has parallel.pipeline."),
                &flags->exchanges);
  line->AddInteger("workers", "Worker processes. Default 2.", 1, 1024,
                   &flags->workers);
  line->AddInteger("servers",
                   "Servers of synchronous_sharded; other exchanges use one. "
                   "Default: the number of workers.",
                   1, 256, &flags->servers);
  line->AddInteger("threads",
                   "Compute threads of each worker. Default: this machine's "
                   "cores divided by the workers; on a GPU, 2.",
                   1, 1024, &flags->threads);
  AddDeviceFlag(line.get(), "auto", &flags->device);
  AddServerDeviceFlag(line.get(), "server-device", &flags->server_device);
  AddStepsFlag(line.get(), &flags->source);
  line->AddText("output", "DIR",
                "Folder for the report and the folders of the runs. Default: "
                "runs/compare-NAME-TIME.",
                &flags->output);
  AddOverwriteFlag(line.get(), &flags->overwrite);
  AddSetFlag(line.get(), "batch.global=64", &flags->source.sets);
  line->AddSwitch("quiet", "Show no progress, only results.", &flags->quiet);
  return line;
}

absl::StatusOr<ComparisonOptions> MakeOptions(const CommandLine& line,
                                              const CompareFlags& flags) {
  TRIBUTARY_ASSIGN_OR_RETURN(const JobSpec job, ReadJob(flags.source));
  const int64_t micro_batches = job.batch().micro_batches();
  if (flags.workers > micro_batches) {
    return absl::InvalidArgumentError(absl::StrCat(
        line.OriginOf("workers"), " ", flags.workers, ": the batch has ",
        Counted(micro_batches, "micro-batch", "micro-batches"), ", so at most ",
        Counted(micro_batches, "worker"),
        " can share it; raise batch.micro_batches (a power of two that divides "
        "batch.global) or lower --workers"));
  }
  std::vector<std::string> names;
  for (const absl::string_view name :
       absl::StrSplit(flags.exchanges, ',', absl::SkipWhitespace())) {
    names.emplace_back(absl::StripAsciiWhitespace(name));
  }
  ComparisonOptions options;
  std::string remark;
  TRIBUTARY_ASSIGN_OR_RETURN(
      const DeviceName device,
      ChooseDevice(flags.device, /*place=*/0, ListedGpus(), &remark));
  options.worker_device = DeviceOfAll(flags.device, device);
  TRIBUTARY_ASSIGN_OR_RETURN(
      const DeviceName server_device,
      ChooseDevice(flags.server_device, /*place=*/0, ListedGpus(), &remark,
                   "server-device"));
  options.server_device = DeviceOfAll(flags.server_device, server_device);
  absl::StatusOr<ExchangeVariants> variants = MakeExchangeVariants(
      job, names,
      static_cast<int>(flags.servers > 0 ? flags.servers : flags.workers),
      static_cast<int>(flags.workers));
  if (!variants.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(names.empty() ? "" : line.OriginOf("exchanges") + ": ",
                     variants.status().message()));
  }
  options.variants = *std::move(variants);
  options.job_name = job.name();
  options.model = ModelTitle(job);
  options.workers = static_cast<int>(flags.workers);
  options.threads = flags.threads > 0
                        ? static_cast<int>(flags.threads)
                        : DefaultWorkerThreads(job, flags.workers, device);
  options.output = flags.output.empty()
                       ? FreshOutputDirectory("compare-" + job.name())
                       : flags.output;
  options.overwrite = flags.overwrite;
  return options;
}

// Prints the results that matter without opening the report.
void PrintResults(const Comparison& comparison, const std::string& folder) {
  std::printf(
      "\n%s%s\n%s/compare.svg\n%s/compare.md\n",
      ComparisonTable(comparison).c_str(),
      absl::StrCat(BubbleLines(comparison), PrimaryLines(comparison)).c_str(),
      folder.c_str(), folder.c_str());
  std::fflush(stdout);
  for (const LeftOutExchange& left : comparison.left_out) {
    std::fprintf(stderr, "%s was left out: %s\n", left.name.c_str(),
                 left.reason.c_str());
  }
}

int ReportFailures(const Comparison& comparison, int exit_code) {
  std::string message;
  for (const ComparedRun& run : comparison.runs) {
    if (run.state != ComparedRun::State::kFailed) continue;
    absl::StrAppend(&message, message.empty() ? "" : "; ", run.name,
                    " failed: ", run.error);
  }
  return ReportError(absl::AbortedError(message), exit_code);
}

}  // namespace

int RunCompareCommand(const std::vector<std::string>& arguments,
                      const Environment& environment,
                      const TrainingSources& sources) {
  CompareFlags flags;
  const std::unique_ptr<CommandLine> line = MakeCommandLine(&flags);
  if (const auto code = line->ParseOrAnswer(arguments, environment)) {
    return *code;
  }
  absl::StatusOr<ComparisonOptions> options = MakeOptions(*line, flags);
  if (!options.ok()) return ReportError(options.status());
  options->sources = sources;
  options->progress = ChooseProgressStyle(
      flags.quiet, /*json=*/false, isatty(STDERR_FILENO) != 0, environment);
  SignalQueue signals(/*with_children=*/true);
  const std::string& folder = options->output;
  const absl::StatusOr<ComparisonResult> result =
      RunComparison(*options, &signals, [&](const Comparison& comparison) {
        return WriteComparison(comparison, folder);
      });
  if (!result.ok()) return ReportError(result.status());
  PrintResults(result->comparison, folder);
  if (result->exit_code == kExitDone) return kExitDone;
  const bool stopped =
      std::any_of(result->comparison.runs.begin(),
                  result->comparison.runs.end(), [](const ComparedRun& run) {
                    return run.state == ComparedRun::State::kStopped;
                  });
  if (!stopped) return ReportFailures(result->comparison, result->exit_code);
  std::fprintf(stderr, "stopped; the report contains the completed runs\n");
  return result->exit_code;
}

}  // namespace tributary
