#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/job/job.h"
#include "common/text/counted.h"
#include "common/text/escape.h"
#include "deploy/commands/subcommands.h"
#include "deploy/flags/command_line.h"
#include "deploy/flags/device_flag.h"
#include "deploy/flags/exit_code.h"
#include "deploy/flags/job_source.h"
#include "deploy/flags/output_directory.h"
#include "deploy/flags/process_log.h"
#include "deploy/flags/run_files.h"
#include "deploy/flags/security_flags.h"
#include "deploy/flags/signals.h"
#include "deploy/flags/thread_counts.h"
#include "deploy/flags/worker_count.h"
#include "deploy/launcher/local_job.h"
#include "deploy/launcher/local_processes.h"
#include "deploy/launcher/progress.h"
#include "deploy/launcher/run_report.h"
#include "deploy/plan/micro_batches.h"
#include "deploy/train/local_training.h"
#include "deploy/train/trained_model.h"
#include "server/checkpoint/checkpoint_folder.h"
#include "server/process/resume_check.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/factory/device_factory.h"
#include "worker/models/model.h"
#include "worker/training/training_sources.h"

namespace tributary {
namespace {

constexpr int64_t kDefaultWorkers = 2;
constexpr int64_t kMostWorkers = 1024;
// The vocabulary of models that generate text.
constexpr int64_t kByteValues = 256;

struct Flags {
  JobSource source;
  std::string workers;
  int64_t spares = 0;
  int64_t servers = 1;
  int64_t threads = 0;  // 0: not set.
  std::string device;
  std::string server_device;
  std::string worker_command;
  int64_t log_every = 0;
  std::string output;
  std::string resume;
  int64_t max_restarts = 10;
  LogFlags log;
  SecurityFlags security;
  bool allow_job_changes = false;
  bool overwrite = false;
  bool quiet = false;
  bool print_config = false;
};

std::unique_ptr<CommandLine> MakeCommandLine(Flags* flags) {
  auto line = std::make_unique<CommandLine>(
      "train", "[JOB.textproto]",
      "Trains a job on this machine: starts its servers and workers, shows "
      "progress, and ends when they have ended. Without JOB it trains the "
      "built-in job: a small GPT on the texts in /usr/share/common-licenses, "
      "about a minute on two cores.",
      std::vector<CommandLine::Example>{
          {"train", "Train the built-in job with two workers."},
          {"train examples/mnist.textproto --set "
           "data.idx.directory=/data/mnist",
           "Train a job file with one field changed."},
          {"train JOB.textproto --workers 4 --servers 2 --output runs/mine",
           "Use more processes; the resulting weights are bitwise identical."},
          {"train JOB.textproto --worker-command 'python3 my_worker.py'",
           "Train with workers of your own."},
          {"train --resume runs/mine",
           "Resume that run from its latest checkpoint."},
          {"train JOB.textproto --print-config",
           "Print the resolved job and the origin of each setting."}});
  line->SetOperand(/*required=*/false, &flags->source.path);
  line->AddText(
      "workers", "N|MIN:MAX",
      "Worker processes: N, or up to MAX, where MIN are enough to start and to "
      "continue. At most as many are started as can compute at the same time: "
      "the job's number of micro-batches. Default 2.",
      &flags->workers);
  line->AddInteger("spares",
                   "Additional workers that stand by and replace workers that "
                   "fail. Default 0.",
                   0, kMostWorkers, &flags->spares);
  line->AddInteger("servers", "Server processes. Default 1.", 1, 256,
                   &flags->servers);
  line->AddInteger("threads",
                   "Compute threads of each worker. Default: this machine's "
                   "cores divided by the workers; on a GPU, 2.",
                   1, 1024, &flags->threads);
  AddDeviceFlag(line.get(), "auto", &flags->device);
  AddServerDeviceFlag(line.get(), "server-device", &flags->server_device);
  line->AddText("worker-command", "COMMAND",
                "Start COMMAND, a program and its arguments with the shell's "
                "quoting, for each worker instead of 'tributary worker'. It "
                "finds that command's flags in its "
                "environment, as TRIBUTARY_COORDINATOR, TRIBUTARY_RANK, ...; "
                "see docs/clusters.md.",
                &flags->worker_command);
  AddStepsFlag(line.get(), &flags->source);
  line->AddText("output", "DIR",
                "Folder for the model, metrics, summary and logs. Default: "
                "output.directory of the job, else runs/NAME-TIME.",
                &flags->output);
  AddOverwriteFlag(line.get(), &flags->overwrite);
  line->AddText("resume", "auto|DIR",
                "Resume from the latest checkpoint of the run in DIR, or from "
                "the checkpoint DIR; auto: resume the run in --output, if "
                "there is one. Without JOB, uses that run's job.",
                &flags->resume);
  AddAllowJobChangesFlag(line.get(), &flags->allow_job_changes);
  line->AddInteger("max-restarts",
                   "Maximum total number of restarts of processes that crashed "
                   "or were killed. Default 10.",
                   0, 1000000000, &flags->max_restarts);
  AddSetFlag(line.get(), "optimizer.adamw.learning_rate=0.001",
             &flags->source.sets);
  line->AddInteger(
      "log-every",
      "Steps between metrics lines and, without a terminal, progress lines. "
      "Default: output.log_every_steps of the job.",
      1, INT64_MAX, &flags->log_every);
  AddSecurityFlags(line.get(), &flags->security);
  AddLogFlags(line.get(), &flags->log);
  line->AddSwitch("quiet", "Show no progress, only warnings and results.",
                  &flags->quiet);
  line->AddSwitch("print-config", "Print the resolved job without training.",
                  &flags->print_config);
  return line;
}

// A resumed run uses its own folder and job unless others are given.
absl::Status FillFromResume(const Flags& flags, JobSource* source) {
  if (flags.resume.empty()) return absl::OkStatus();
  if (flags.overwrite) {
    return absl::InvalidArgumentError(
        "--resume continues a run and --overwrite removes it: set only one of "
        "them");
  }
  if (flags.resume == kResumeAuto) {
    if (!source->output_directory.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "--resume auto requires --output DIR, the folder of the run");
  }
  const std::string job = absl::StrCat(flags.resume, "/job.textproto");
  std::error_code error;
  const bool is_run = std::filesystem::exists(job, error);
  if (!std::filesystem::is_directory(flags.resume, error)) {
    return absl::NotFoundError(
        absl::StrCat("--resume ", flags.resume, ": no such folder"));
  }
  if (is_run && source->output_directory.empty()) {
    source->output_directory = flags.resume;
  }
  if (source->path.empty()) {
    // A checkpoint is at RUN/checkpoints/step-NNNNNNNN.
    source->path =
        is_run ? job : absl::StrCat(flags.resume, "/../../job.textproto");
  }
  return absl::OkStatus();
}

// Returns the number of micro-batches that the resumed run was started with.
int64_t RecordedMicroBatches(const std::string& output) {
  const absl::StatusOr<JobSpec> job =
      LoadJob(absl::StrCat(output, "/job.textproto"));
  return job.ok() ? job->batch().micro_batches() : kFindMicroBatches;
}

// Chooses batch.micro_batches if the job leaves the choice to the launcher.
absl::Status FindMicroBatchesOf(const Flags& flags, int64_t workers,
                                const DeviceName& device,
                                const TrainingSources& sources, JobSpec* job) {
  if (job->batch().micro_batches() != kFindMicroBatches) {
    return absl::OkStatus();
  }
  int64_t count = flags.resume.empty()
                      ? kFindMicroBatches
                      : RecordedMicroBatches(job->output().directory());
  if (count < 1) {
    // Releases this process's GPU memory for the workers.
    const absl::Cleanup leave = [&device] {
      if (device.kind == DeviceName::Kind::kCuda) LeaveCuda(device.ordinal);
    };
    TRIBUTARY_ASSIGN_OR_RETURN(const std::unique_ptr<Device> made,
                               CreateDevice(device, PrecisionOf(*job)));
    // Number of GPUs that the workers share.
    const bool one = flags.device == FormatDeviceName(device);
    const int64_t gpus = one ? 1 : CountCudaDevices().value_or(1);
    TRIBUTARY_ASSIGN_OR_RETURN(
        count, ChooseMicroBatches(*job, workers, gpus, *made, sources));
  }
  job->mutable_batch()->set_micro_batches(count);
  *job = ResolveJob(*job);
  return absl::OkStatus();
}

absl::Status ReadWorkers(const CommandLine& line, const Flags& flags,
                         WorkerCount* workers) {
  if (flags.workers.empty()) {
    workers->most = workers->fewest = kDefaultWorkers;
    return absl::OkStatus();
  }
  const auto count = ParseWorkerCount(flags.workers, kMostWorkers);
  if (!count.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(line.OriginOf("workers"), ": ", count.status().message()));
  }
  *workers = *count;
  return absl::OkStatus();
}

// Returns "8 workers can compute at the same time, because batch.micro_batches
// is 8".
std::string WhoCanCompute(int64_t most) {
  return absl::StrCat(
      most, most == 1 ? " worker" : " workers",
      " can compute at the same time, because batch.micro_batches is ", most);
}

// Limits the number of workers to those that can compute, and rejects spares
// that would compute.
absl::Status FitWorkers(const CommandLine& line, const Flags& flags,
                        LocalTraining* plan, std::string* remark) {
  const int64_t most = MostComputing(plan->job);
  if (plan->workers.most > most) {
    if (!flags.workers.empty()) {
      *remark =
          absl::StrCat(line.OriginOf("workers"), " ", flags.workers, ": ",
                       WhoCanCompute(most), ", so no more are started; raise ",
                       "batch.micro_batches to use more, or add --spares N for "
                       "workers that stand by");
    }
    plan->workers.most = most;
    plan->workers.fewest = std::min(plan->workers.fewest, most);
  }
  plan->spares = flags.spares;
  if (plan->spares == 0 || plan->workers.most == most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      line.OriginOf("spares"), " ", flags.spares, ": ",
      most > kMostWorkers
          ? std::string("in consistency mode asynchronous every worker "
                        "computes; raise --workers instead")
          : absl::StrCat(
                WhoCanCompute(most), ", and ", plan->workers.most,
                " are requested, so none would stand by; add --workers ",
                most)));
}

absl::StatusOr<LocalTraining> MakePlan(const CommandLine& line,
                                       const Flags& flags,
                                       const TrainingSources& sources,
                                       std::string* worker_remark) {
  JobSource source = flags.source;
  if (flags.log_every > 0) source.log_every_steps = flags.log_every;
  source.output_directory = flags.output;
  source.finds_micro_batches = true;
  TRIBUTARY_RETURN_IF_ERROR(FillFromResume(flags, &source));
  LocalTraining plan;
  TRIBUTARY_ASSIGN_OR_RETURN(plan.job, ReadJob(source));
  for (const Role role : {Role::kServer, Role::kWorker}) {
    TRIBUTARY_RETURN_IF_ERROR(ReadSecurity(flags.security, {role}).status());
  }
  TRIBUTARY_ASSIGN_OR_RETURN(
      plan.own_security,
      ReadSecurity(flags.security, {Role::kAdmin, Role::kServer}));
  std::string remark;
  TRIBUTARY_ASSIGN_OR_RETURN(
      plan.device,
      ChooseDevice(flags.device, /*place=*/0, ListedGpus(), &remark));
  plan.worker_device = DeviceOfAll(flags.device, plan.device);
  TRIBUTARY_ASSIGN_OR_RETURN(
      const DeviceName server_device,
      ChooseServerDevice(plan.job, flags.server_device, /*place=*/0,
                         ListedGpus(), &remark, "server-device"));
  plan.server_device = DeviceOfAll(flags.server_device, server_device);
  TRIBUTARY_RETURN_IF_ERROR(ReadWorkers(line, flags, &plan.workers));
  TRIBUTARY_RETURN_IF_ERROR(FindMicroBatchesOf(
      flags, plan.workers.most, plan.device, sources, &plan.job));
  TRIBUTARY_RETURN_IF_ERROR(FitWorkers(line, flags, &plan, worker_remark));
  plan.servers = static_cast<int>(flags.servers);
  plan.threads =
      flags.threads > 0
          ? static_cast<int>(flags.threads)
          : DefaultWorkerThreads(plan.job, plan.workers.most, plan.device);
  plan.worker_command = flags.worker_command;
  plan.output = plan.job.output().directory();
  if (plan.output.empty()) {
    plan.output = FreshOutputDirectory(plan.job.name());
  }
  plan.resume = flags.resume;
  plan.allow_job_changes = flags.allow_job_changes;
  plan.max_restarts = static_cast<int>(flags.max_restarts);
  plan.log = flags.log;
  plan.security = flags.security;
  return plan;
}

void PrintConfig(const CommandLine& line, const Flags& flags,
                 const LocalTraining& plan) {
  const auto print = [](const char* what, const std::string& value,
                        const std::string& origin) {
    std::printf("# %-9s %s (%s)\n", what, value.c_str(),
                origin.empty() ? "default" : origin.c_str());
  };
  print("job", flags.source.path.empty() ? "built in" : flags.source.path,
        flags.source.path.empty() ? "" : "argument");
  print("workers", plan.workers.ToString(), line.OriginOf("workers"));
  if (plan.spares > 0) {
    print("spares", absl::StrCat(plan.spares), line.OriginOf("spares"));
  }
  print("servers", absl::StrCat(flags.servers), line.OriginOf("servers"));
  print("threads", absl::StrCat(plan.threads, " for each worker"),
        line.OriginOf("threads"));
  print("device", plan.worker_device, line.OriginOf("device"));
  if (!plan.worker_command.empty()) {
    print("command", plan.worker_command, line.OriginOf("worker-command"));
  }
  if (plan.server_device != "cpu") {
    print("server-device", plan.server_device, line.OriginOf("server-device"));
  }
  const bool job_output =
      flags.output.empty() && !plan.job.output().directory().empty();
  print("output", plan.output,
        job_output ? "output.directory" : line.OriginOf("output"));
  for (const char* name : {"steps", "log-every"}) {
    if (!line.OriginOf(name).empty()) {
      print(name, "changes the job", line.OriginOf(name));
    }
  }
  for (const std::string& set : flags.source.sets) {
    print("set", set, line.OriginOf("set"));
  }
  std::printf("\n%s", PrintJob(plan.job).c_str());
}

// Prints the closing lines to stdout.
absl::Status PrintResults(const LocalTraining& plan) {
  TRIBUTARY_ASSIGN_OR_RETURN(const std::string summary,
                             ReadRunSummary(plan.output));
  TRIBUTARY_ASSIGN_OR_RETURN(const std::string report,
                             FormatRunReport(summary, plan.output));
  std::fputs(report.c_str(), stdout);
  std::fflush(stdout);
  const int64_t bytes = plan.job.output().sample_bytes();
  if (!plan.job.model().has_gpt() || bytes == 0 ||
      plan.job.model().gpt().vocabulary() != kByteValues) {
    return absl::OkStatus();
  }
  GenerateOptions options;
  options.bytes = bytes;
  options.seed = plan.job.seed();
  TRIBUTARY_ASSIGN_OR_RETURN(
      const std::string sample,
      SampleTrainedModel(plan.output, /*prompt=*/"", options, plan.device));
  // Escaped even for files, because the output contains other lines too.
  std::printf("sample\n%s\n", EscapeForTerminal(sample).c_str());
  return absl::OkStatus();
}

absl::Status ClaimOutput(const Flags& flags, LocalTraining* plan,
                         std::unique_ptr<OutputDirectory>* claimed) {
  TRIBUTARY_ASSIGN_OR_RETURN(
      *claimed, OutputDirectory::Claim(
                    plan->output, EarlierRun(flags.resume, flags.overwrite)));
  if (!flags.resume.empty()) {
    // Checked before any file of the run is changed.
    TRIBUTARY_RETURN_IF_ERROR(CheckResumeRequest(
        {plan->job, plan->output,
         flags.resume == kResumeAuto ? std::string() : flags.resume,
         flags.allow_job_changes}));
  }
  return WriteJobFolder(plan->output, plan->job);
}

int Train(const Flags& flags, LocalTraining plan,
          const std::string& worker_remark, const Environment& environment) {
  SignalQueue signals(/*with_children=*/true);
  std::unique_ptr<OutputDirectory> output;
  const absl::Status claimed = ClaimOutput(flags, &plan, &output);
  if (!claimed.ok()) return ReportError(claimed);
  const ProgressStyle style =
      ChooseProgressStyle(flags.quiet, flags.log.format == "json",
                          isatty(STDERR_FILENO) != 0, environment);
  LocalJobResult result;
  {
    ProgressDisplay display(STDERR_FILENO, style,
                            plan.job.output().log_every_steps());
    if (!worker_remark.empty()) {
      display.Message(absl::StrCat("warning: ", worker_remark));
    }
    if (!flags.quiet && flags.log.format == "text") {
      display.Message(absl::StrCat(
          "training ", plan.job.name(), ": ", Counted(flags.servers, "server"),
          ", ", plan.workers.ToString(),
          plan.workers.most == 1 ? " worker" : " workers",
          plan.spares == 0
              ? ""
              : absl::StrCat(" and ", Counted(plan.spares, "spare")),
          ", ", Counted(plan.threads, "thread"), " each",
          plan.device.kind == DeviceName::Kind::kCuda ? ", on " : "; ",
          plan.device.kind == DeviceName::Kind::kCuda
              ? absl::StrCat(plan.worker_device, "; ")
              : "",
          plan.output));
    }
    result = TrainLocally(plan, &signals, &display);
  }
  if (absl::IsCancelled(result.status)) {
    const auto checkpoints = ListCheckpoints(CheckpointsFolder(plan.output));
    const bool resumable = checkpoints.ok() && !checkpoints->empty();
    std::fprintf(
        stderr, "%s; metrics and logs are in %s%s\n",
        std::string(result.status.message()).c_str(), plan.output.c_str(),
        resumable
            ? absl::StrCat("; resume from step ", checkpoints->front().step,
                           " with: tributary train --resume ", plan.output)
                  .c_str()
            : "");
    return result.exit_code;
  }
  if (!result.status.ok()) return ReportError(result.status, result.exit_code);
  absl::Status printed = AddPrediction(plan);
  if (printed.ok()) printed = PrintResults(plan);
  return printed.ok() ? kExitDone : ReportError(printed, kExitFailed);
}

}  // namespace

int RunTrainCommand(const std::vector<std::string>& arguments,
                    const Environment& environment,
                    const TrainingSources& sources) {
  Flags flags;
  const std::unique_ptr<CommandLine> line = MakeCommandLine(&flags);
  if (const auto code = line->ParseOrAnswer(arguments, environment)) {
    return *code;
  }
  std::string worker_remark;
  absl::StatusOr<LocalTraining> plan =
      MakePlan(*line, flags, sources, &worker_remark);
  if (!plan.ok()) return ReportError(plan.status());
  if (flags.print_config) {
    PrintConfig(*line, flags, *plan);
    return kExitDone;
  }
  return Train(flags, *std::move(plan), worker_remark, environment);
}

}  // namespace tributary
