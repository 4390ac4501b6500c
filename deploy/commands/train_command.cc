#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/types/optional.h"
#include "common/base/status_macros.h"
#include "common/job/job.h"
#include "common/os/file.h"
#include "common/tensorboard/event_file.h"
#include "common/text/counted.h"
#include "common/text/escape.h"
#include "deploy/commands/subcommands.h"
#include "deploy/commands/train_plan.h"
#include "deploy/flags/command_line.h"
#include "deploy/flags/device_flag.h"
#include "deploy/flags/exit_code.h"
#include "deploy/flags/job_source.h"
#include "deploy/flags/output_directory.h"
#include "deploy/flags/process_log.h"
#include "deploy/flags/run_files.h"
#include "deploy/flags/security_flags.h"
#include "deploy/flags/signal_queue.h"
#include "deploy/launch/job/job_launch.h"
#include "deploy/launch/job/progress_display.h"
#include "deploy/launch/job/run_report.h"
#include "deploy/launch/slurm/allocation.h"
#include "deploy/launch/slurm/requeue.h"
#include "deploy/launch/slurm/slurm_training.h"
#include "deploy/launch/train/launch_record.h"
#include "deploy/launch/train/local_data.h"
#include "deploy/launch/train/step_prediction.h"
#include "deploy/launch/train/trained_model.h"
#include "nlohmann/json.hpp"
#include "server/checkpoint/checkpoint_folder.h"
#include "server/process/finished_run.h"
#include "server/process/resume_check.h"
#include "worker/device/factory/device_factory.h"
#include "worker/training/training_sources.h"

namespace tributary {
namespace {

std::unique_ptr<CommandLine> MakeCommandLine(TrainFlags* flags) {
  auto line = std::make_unique<CommandLine>(
      "train", "[JOB.textproto]",
      "Trains a job on this machine, or on all nodes of a Slurm allocation: "
      "starts its servers and workers, shows "
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
          {"train JOB.textproto --in-process --devices cuda:0,cuda:1",
           "Train in this process, with one worker on each GPU."},
          {"train JOB.textproto --fit",
           "Change the job as little as possible so that it fits into memory."},
          {"train --resume runs/mine",
           "Resume that run from its latest checkpoint."},
          {"train JOB.textproto --print-config",
           "Print the resolved job and the origin of each setting."}});
  line->SetOperand(/*required=*/false, &flags->source.path);
  line->AddText(
      "workers", "N|MIN:MAX",
      "Worker processes: N, or up to MAX, where MIN are enough to start and to "
      "continue. At most as many are started as can compute at the same time: "
      "the job's number of micro-batches. Default 2, or those of the resumed "
      "run; in a Slurm allocation, one per task.",
      &flags->workers);
  line->AddInteger("spares",
                   "Additional workers that stand by and replace workers that "
                   "fail. Default 0.",
                   0, kMostTrainWorkers, &flags->spares);
  line->AddInteger("servers",
                   "Server processes. Default 1, or those of the resumed run; "
                   "in a Slurm allocation, one per node.",
                   1, 4096, &flags->servers);
  line->AddInteger("threads",
                   "Compute threads of each worker. Default: this machine's "
                   "cores divided by the workers; on a GPU, 2.",
                   1, 1024, &flags->threads);
  AddDeviceFlag(line.get(), "auto", &flags->device);
  AddServerDeviceFlag(line.get(), "server-device", &flags->server_device);
  line->AddSwitch(
      "in-process",
      "Run servers and workers as threads of this process, without child "
      "processes and sockets; the resulting weights are bitwise identical.",
      &flags->in_process);
  line->AddText("devices", "DEVICE,...",
                "With --in-process: the device of each worker, such as cpu,cpu "
                "or cuda:0,cuda:1.",
                &flags->devices);
  line->AddSwitch(
      "fit",
      "Change the job as little as possible so that it fits into the memory "
      "that is free on this machine: with more micro-batches, recomputed "
      "activations, fewer threads and workers, sharded weights or bfloat16. "
      "Prints the flags that choose the same.",
      &flags->fit);
  line->AddText("worker-command", "COMMAND",
                "Start COMMAND, a program and its arguments with the shell's "
                "quoting, for each worker instead of 'tributary worker'. It "
                "finds that command's flags in its "
                "environment, as TRIBUTARY_COORDINATOR, TRIBUTARY_RANK, ...; "
                "see docs/clusters.md. A resumed run uses the command with "
                "which it was started, in the same folder.",
                &flags->launch.worker_command);
  line->AddText("metrics-listen", "HOST:PORT",
                "Serve metrics for Prometheus here (server 0) and at the "
                "following ports (the other servers, then the workers). "
                "DIR/prometheus-targets.json lists the addresses. Default: "
                "off.",
                &flags->launch.metrics_listen);
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
                &flags->launch.resume);
  AddAllowJobChangesFlag(line.get(), &flags->launch.allow_job_changes);
  line->AddInteger("max-restarts",
                   "Maximum total number of restarts of processes that crashed "
                   "or were killed. Default 10.",
                   0, 1000000000, &flags->launch.max_restarts);
  AddSetFlag(line.get(), "optimizer.adamw.learning_rate=0.001",
             &flags->source.sets);
  line->AddInteger(
      "log-every",
      "Steps between metrics lines and, without a terminal, progress lines. "
      "Default: output.log_every_steps of the job.",
      1, INT64_MAX, &flags->log_every);
  line->AddText("trace-steps", "A:B",
                "Record what all processes do in steps A to B - 1, counted "
                "from 0, in DIR/trace.json, which Perfetto "
                "(ui.perfetto.dev) shows. Default: off.",
                &flags->trace_steps);
  AddSecurityFlags(line.get(), &flags->launch.security);
  AddInsecureNetworkFlag(
      line.get(),
      "In a Slurm allocation of several nodes: do not create certificates and "
      "a token for this run. Nothing is encrypted.",
      &flags->launch.security);
  AddSlurmFlags(line.get(), &flags->slurm);
  AddLogFlags(line.get(), &flags->launch.log);
  line->AddSwitch("quiet", "Show no progress, only warnings and results.",
                  &flags->quiet);
  line->AddSwitch("print-config", "Print the resolved job without training.",
                  &flags->print_config);
  return line;
}

void PrintConfig(const CommandLine& line, const TrainFlags& flags,
                 const JobLaunch& plan) {
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
  print("servers", absl::StrCat(plan.servers), line.OriginOf("servers"));
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

// Shows the text that was sampled after `step` steps in TensorBoard.
absl::Status RecordSample(const JobLaunch& plan, int64_t step,
                          const std::string& sample) {
  if (!plan.job.output().tensorboard()) return absl::OkStatus();
  const absl::Time now = absl::Now();
  TRIBUTARY_ASSIGN_OR_RETURN(
      const std::unique_ptr<EventFile> events,
      EventFile::Create(absl::StrCat(plan.output, "/tensorboard"), now));
  events->AddText(now, step, "sample", sample);
  return events->status();
}

// Prints the closing lines to stdout.
absl::Status PrintResults(const JobLaunch& plan, const DeviceName& device) {
  TRIBUTARY_ASSIGN_OR_RETURN(const nlohmann::ordered_json summary,
                             ReadRunSummary(plan.output));
  std::fputs(FormatRunReport(summary, plan.output).c_str(), stdout);
  std::fflush(stdout);
  const int64_t bytes = plan.job.output().sample_bytes();
  if (!plan.job.model().has_gpt() || bytes == 0 || !KnowsTokens(plan.job)) {
    return absl::OkStatus();
  }
  SampleRequest request;
  request.bytes = bytes;
  request.options.tokens = bytes;
  request.options.seed = plan.job.seed();
  std::string sample;
  TRIBUTARY_RETURN_IF_ERROR(SampleTrainedModel(
      plan.output, request, device,
      [&](absl::string_view text) { absl::StrAppend(&sample, text); }));
  // Escaped even for files, because the output contains other lines too.
  const std::string shown = EscapeForTerminal(sample);
  std::printf("sample\n%s\n", shown.c_str());
  TRIBUTARY_RETURN_IF_ERROR(
      WriteFileAtomically(absl::StrCat(plan.output, "/sample.txt"), {shown}));
  return RecordSample(plan, summary.value("steps", int64_t{0}), shown);
}

// Writes the addresses of the metrics for Prometheus' file_sd_configs.
absl::Status WriteMetricsTargets(const JobLaunch& plan) {
  if (plan.metrics_listen.empty()) return absl::OkStatus();
  const int64_t workers =
      plan.worker_command.empty() ? plan.workers.most + plan.spares : 0;
  nlohmann::ordered_json targets = nlohmann::ordered_json::array();
  for (int i = 0; i < plan.servers + workers; ++i) {
    const bool is_server = i < plan.servers;
    targets.push_back(
        {{"targets", {MetricsAddress(plan.metrics_listen, i)}},
         {"labels",
          {{"run", plan.output},
           {"role", is_server ? "server" : "worker"},
           {"number", absl::StrCat(is_server ? i : i - plan.servers)}}}});
  }
  return WriteFileAtomically(
      absl::StrCat(plan.output, "/prometheus-targets.json"),
      {targets.dump(2), "\n"});
}

LaunchRecord RecordOf(const JobLaunch& plan) {
  LaunchRecord record;
  record.worker_command = plan.worker_command;
  std::error_code error;  // The folder may have been removed.
  record.working_folder = plan.worker_folder.empty()
                              ? std::filesystem::current_path(error).string()
                              : plan.worker_folder;
  record.workers = plan.workers.ToString();
  record.spares = plan.spares;
  record.servers = plan.servers;
  return record;
}

absl::Status ClaimOutput(const TrainFlags& flags, JobLaunch* plan,
                         std::unique_ptr<OutputDirectory>* claimed) {
  TRIBUTARY_ASSIGN_OR_RETURN(
      *claimed,
      OutputDirectory::Claim(plan->output,
                             EarlierRun(flags.launch.resume, flags.overwrite)));
  if (!flags.launch.resume.empty()) {
    // Checked before any file of the run is changed.
    TRIBUTARY_RETURN_IF_ERROR(CheckResumeRequest(
        {plan->job, plan->output,
         flags.launch.resume == kResumeAuto ? std::string()
                                            : flags.launch.resume,
         flags.launch.allow_job_changes}));
  }
  TRIBUTARY_RETURN_IF_ERROR(WriteJobFolder(*plan));
  if (!flags.in_process) {
    TRIBUTARY_RETURN_IF_ERROR(WriteLaunchRecord(plan->output, RecordOf(*plan)));
  }
  return WriteMetricsTargets(*plan);
}

// Shows the results of a run that has nothing left to do.
int ShowFinishedRun(const JobLaunch& plan, int64_t steps) {
  std::printf("%s is already done, after %s; to train longer, add --steps N\n",
              plan.output.c_str(), Counted(steps, "step").c_str());
  const auto summary = ReadRunSummary(plan.output);
  if (!summary.ok()) return ReportError(summary.status());
  std::fputs(FormatRunReport(*summary, plan.output).c_str(), stdout);
  return kExitDone;
}

int Train(const TrainFlags& flags, const TrainPlan& all,
          const std::vector<std::string>& remarks,
          const TrainingSources& sources, const Environment& environment) {
  JobLaunch plan = all.launch;
  if (!flags.launch.resume.empty()) {
    const std::optional<ResumePoint> finished =
        FindFinishedRun(plan.job, plan.output);
    if (finished.has_value()) {
      return ShowFinishedRun(plan, finished->manifest.step());
    }
  }
  // Workers on other nodes, and programs of the user's, read data of their own.
  if (!all.slurm.has_value() && plan.worker_command.empty()) {
    const absl::Status readable = CheckLocalData(plan.job, sources);
    if (!readable.ok()) return ReportError(readable);
  }
  SignalQueue signals(/*with_children=*/true);
  std::unique_ptr<OutputDirectory> output;
  const absl::Status claimed = ClaimOutput(flags, &plan, &output);
  if (!claimed.ok()) return ReportError(claimed);
  const ProgressStyle style =
      ChooseProgressStyle(flags.quiet, flags.launch.log.format == "json",
                          isatty(STDERR_FILENO) != 0, environment);
  JobEnd end;
  {
    ProgressDisplay display(STDERR_FILENO, style,
                            plan.job.output().log_every_steps());
    for (const std::string& remark : remarks) display.Message(remark);
    const int64_t traced = plan.job.output().trace().end_step();
    if (plan.job.has_steps() && traced > plan.job.steps()) {
      display.Message(absl::StrCat("warning: the last step to trace is ",
                                   traced - 1, ", but the job ends after step ",
                                   plan.job.steps() - 1, " (counted from 0)"));
    }
    if (!flags.quiet && flags.launch.log.format == "text") {
      display.Message(absl::StrCat(
          "training ", plan.job.name(), ": ", Counted(plan.servers, "server"),
          ", ", plan.workers.ToString(),
          plan.workers.most == 1 ? " worker" : " workers",
          plan.spares == 0
              ? ""
              : absl::StrCat(" and ", Counted(plan.spares, "spare")),
          ", ", Counted(plan.threads, "thread"), " each",
          all.device.kind == DeviceName::Kind::kCuda ? ", on " : "; ",
          all.device.kind == DeviceName::Kind::kCuda
              ? absl::StrCat(plan.worker_device, "; ")
              : "",
          all.slurm.has_value()
              ? absl::StrCat(Counted(static_cast<int64_t>(
                                         all.slurm->allocation.nodes.size()),
                                     "node"),
                             " of Slurm job ", all.slurm->allocation.run_id,
                             "; ")
              : "",
          plan.output));
    }
    end = all.slurm.has_value() ? TrainOnSlurm(*all.slurm, &signals, &display)
          : all.in_process.has_value()
              ? RunInProcess(plan, *all.in_process, sources, &signals, &display)
              : RunJob(plan, &signals, &display);
  }
  if (absl::IsCancelled(end.status)) {
    const auto checkpoints = ListCheckpoints(CheckpointsFolder(plan.output));
    const bool resumable = checkpoints.ok() && !checkpoints->empty();
    std::fprintf(stderr, "%s; metrics and logs are in %s%s\n",
                 std::string(end.status.message()).c_str(), plan.output.c_str(),
                 resumable ? absl::StrCat("; resume from step ",
                                          checkpoints->front().step,
                                          " with: tributary train --resume ",
                                          ShellWord(plan.output))
                                 .c_str()
                           : "");
    if (all.slurm.has_value()) {
      const std::string remark =
          RequeueStoppedJob(all.slurm->allocation, end.signal, environment,
                            absl::StrCat(plan.output, "/logs"));
      if (!remark.empty()) std::fprintf(stderr, "%s\n", remark.c_str());
    }
    return end.exit_code;
  }
  if (!end.status.ok()) return ReportError(end.status, end.exit_code);
  // The prediction is for processes on one machine.
  absl::Status printed =
      all.slurm.has_value() ? absl::OkStatus() : AddPrediction(plan);
  if (printed.ok()) printed = PrintResults(plan, all.device);
  return printed.ok() ? kExitDone : ReportError(printed, kExitFailed);
}

}  // namespace

int RunTrainCommand(const std::vector<std::string>& arguments,
                    const Environment& environment,
                    const TrainingSources& sources) {
  TrainFlags flags;
  flags.launch.max_restarts = 10;
  const std::unique_ptr<CommandLine> line = MakeCommandLine(&flags);
  if (const auto code = line->ParseOrAnswer(arguments, environment)) {
    return *code;
  }
  const auto allocation = AllocationToUse(flags.slurm, environment);
  if (!allocation.ok()) return ReportError(allocation.status());
  const bool requeued = allocation->has_value() && (*allocation)->requeued;
  if (requeued && flags.launch.resume.empty()) {
    flags.launch.resume = kResumeAuto;
    flags.overwrite = false;  // It applied to what the first run found.
  }
  std::vector<std::string> remarks;
  const absl::StatusOr<TrainPlan> plan =
      MakeTrainPlan(*line, flags, *allocation, sources, &remarks);
  if (!plan.ok()) return ReportError(plan.status());
  if (flags.print_config) {
    PrintConfig(*line, flags, plan->launch);
    return kExitDone;
  }
  return Train(flags, *plan, remarks, sources, environment);
}

}  // namespace tributary
