#include "deploy/tools/compare/comparison_run.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/job/exchange_traits.h"
#include "common/job/rounds.h"
#include "common/os/file.h"
#include "common/os/process.h"
#include "deploy/flags/device_flag.h"
#include "deploy/flags/exit_code.h"
#include "deploy/flags/output_directory.h"
#include "deploy/flags/run_files.h"
#include "deploy/flags/thread_counts.h"
#include "deploy/launch/in_process/in_process_launch.h"
#include "deploy/launch/job/job_launch.h"
#include "deploy/launch/plan/exchange_plan.h"
#include "deploy/launch/plan/local_timing.h"
#include "deploy/launch/plan/pipeline_shape.h"
#include "deploy/launch/plan/run_prediction.h"
#include "deploy/launch/train/step_prediction.h"
#include "deploy/tools/compare/comparison_hosts.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

constexpr int64_t kMaxMetricsBytes = 256 << 20;
constexpr int64_t kPointsOfACurve = 100;
// 10 Gbit/s, the default of `tributary plan`.
constexpr double kBandwidth = 1.25e9;

// Plans the job in synchronous mode with one server, from the computing time of
// a run.
absl::StatusOr<ExchangePlan> PlanHosts(const JobLaunch& launch, JobSpec job) {
  SetExchange("synchronous", job.mutable_exchange());
  TRIBUTARY_ASSIGN_OR_RETURN(const nlohmann::ordered_json summary,
                             ReadRunSummary(launch.output));
  TRIBUTARY_ASSIGN_OR_RETURN(
      const PassTiming pass,
      TimePass(JobOfRounds(job).optimizer(),
               summary.value("parameters", int64_t{0}), ServerThreads(1)));
  absl::optional<PlanInputs> inputs =
      InputsFromRun(RunOf(launch), summary, pass);
  if (!inputs.has_value()) {
    return absl::InternalError("the run has no complete steps");
  }
  inputs->job = std::move(job);
  inputs->servers = 1;
  inputs->server_threads = ServerThreads(1);
  inputs->cores = UsableCores();
  inputs->bandwidth = kBandwidth;
  return PlanExchange(*inputs);
}

class Comparer {
 public:
  Comparer(const ComparisonOptions& options, SignalQueue* signals,
           const std::function<absl::Status(const Comparison&)>& changed)
      : options_(options), signals_(signals), changed_(changed) {
    Comparison& comparison = result_.comparison;
    comparison.job = options.job_name;
    comparison.model = options.model;
    comparison.workers = options.workers;
    comparison.threads = options.threads;
    comparison.cores = UsableCores();
    comparison.bandwidth = kBandwidth;
    comparison.left_out = options.variants.left_out;
    for (const ExchangeVariant& variant : options.variants.variants) {
      ComparedRun run;
      run.name = variant.name;
      run.servers = variant.servers;
      run.transport =
          variant.in_process
              ? "one process"
              : TransportName(variant.job, options.worker_device != "cpu");
      run.folder = variant.name;
      comparison.runs.push_back(std::move(run));
    }
  }

  absl::StatusOr<ComparisonResult> Run() {
    TRIBUTARY_RETURN_IF_ERROR(ClaimFolders());
    for (size_t i = 0; i < result_.comparison.runs.size(); ++i) {
      const JobEnd ended = RunOne(i);
      TRIBUTARY_RETURN_IF_ERROR(changed_(result_.comparison));
      if (absl::IsCancelled(ended.status)) {
        result_.exit_code = ended.exit_code;
        return std::move(result_);
      }
    }
    result_.exit_code = ExitCode();
    return std::move(result_);
  }

 private:
  // Claims all folders before the first run, which may take long.
  absl::Status ClaimFolders() {
    for (const ComparedRun& run : result_.comparison.runs) {
      TRIBUTARY_ASSIGN_OR_RETURN(
          std::unique_ptr<OutputDirectory> folder,
          OutputDirectory::Claim(
              absl::StrCat(options_.output, "/", run.folder),
              EarlierRun(/*resume=*/"", options_.overwrite)));
      folders_.push_back(std::move(folder));
    }
    return absl::OkStatus();
  }

  JobEnd RunOne(size_t number) {
    const ExchangeVariant& variant = options_.variants.variants[number];
    ComparedRun& run = result_.comparison.runs[number];
    JobLaunch launch;
    launch.job = JobToCompare(variant.job);
    launch.workers = {options_.workers, options_.workers};
    launch.servers = variant.servers;
    launch.threads = options_.threads;
    if (ResolveExchange(variant.job).servers_update) {
      launch.server_device = options_.server_device;
    }
    launch.worker_device = options_.worker_device;
    launch.output = folders_[number]->path();
    JobEnd ended = Train(launch, number);
    const absl::StatusOr<std::string> metrics = ReadFile(
        absl::StrCat(launch.output, "/metrics.jsonl"), kMaxMetricsBytes);
    if (metrics.ok()) run.losses = ReadLosses(*metrics);
    if (ended.status.ok()) {
      ended.status = ReadRun(launch, variant.in_process, &run);
    }
    // Removes the model, because the models of all runs together could fill the
    // disk.
    std::error_code ignored;
    std::filesystem::remove_all(launch.output + "/final", ignored);
    if (ended.status.ok()) {
      run.state = ComparedRun::State::kDone;
      if (!variant.in_process) DescribeHostsAfter(launch);
    } else if (absl::IsCancelled(ended.status)) {
      run.state = ComparedRun::State::kStopped;
    } else {
      run.state = ComparedRun::State::kFailed;
      run.error = std::string(ended.status.message());
      only_wrong_usage_ &= ended.exit_code == kExitUsage;
    }
    return ended;
  }

  JobEnd Train(const JobLaunch& launch, size_t number) {
    const absl::Status written = WriteJobFolder(launch);
    if (!written.ok()) return {written, ExitCodeOf(written)};
    ProgressDisplay display(STDERR_FILENO, options_.progress,
                            launch.job.output().log_every_steps());
    if (options_.progress != ProgressStyle::kNone) {
      display.Message(absl::StrCat(
          number + 1, " of ", result_.comparison.runs.size(), ": ",
          result_.comparison.runs[number].name,
          launch.servers > 1 ? absl::StrCat(", ", launch.servers, " servers")
                             : ""));
    }
    if (!options_.variants.variants[number].in_process) {
      return RunJob(launch, signals_, &display);
    }
    const absl::StatusOr<InProcessDevices> devices = ChooseDevices(launch);
    if (!devices.ok()) return {devices.status(), kExitUsage};
    ResetPeakMemory();
    cpu_before_ = CpuSeconds();
    return RunInProcess(launch, *devices, options_.sources, signals_, &display);
  }

  // A device for each worker. Servers use the CPU.
  absl::StatusOr<InProcessDevices> ChooseDevices(const JobLaunch& launch) {
    InProcessDevices devices;
    const Gpus gpus = MachineGpus();
    for (int64_t rank = 0; rank < launch.workers.most; ++rank) {
      std::string remark;
      TRIBUTARY_ASSIGN_OR_RETURN(
          const DeviceName device,
          ChooseDevice(options_.worker_device, rank, gpus, &remark));
      devices.workers.push_back(device);
    }
    return devices;
  }

  absl::Status ReadRun(const JobLaunch& launch, bool in_process,
                       ComparedRun* run) {
    // The prediction is for processes.
    if (!in_process) TRIBUTARY_RETURN_IF_ERROR(AddPrediction(launch));
    TRIBUTARY_ASSIGN_OR_RETURN(const nlohmann::ordered_json summary,
                               ReadRunSummary(launch.output));
    TRIBUTARY_ASSIGN_OR_RETURN(run->figures,
                               ReadRunFigures(summary, run->losses));
    if (in_process && !run->figures->processes.empty()) {
      // The statistics are those of this process.
      double& cpu = run->figures->processes[0].cpu_seconds;
      cpu = std::max(0.0, cpu - cpu_before_);
    }
    if (launch.job.parallel().has_pipeline()) {
      const PipelineShape shape =
          PipelineShapeOf(launch.job, static_cast<int>(launch.workers.most));
      run->bubble = {1 - run->figures->compute_ms / run->figures->step_ms,
                     shape.FormulaBubble()};
    }
    return absl::OkStatus();
  }

  // The first completed run whose workers compute the whole model provides the
  // computing time, later ones the memory.
  void DescribeHostsAfter(const JobLaunch& launch) {
    if (!plan_.has_value()) {
      if (launch.job.parallel().has_pipeline()) return;
      absl::StatusOr<ExchangePlan> plan = PlanHosts(launch, launch.job);
      if (!plan.ok()) return;
      plan_ = *std::move(plan);
    }
    result_.comparison.hosts = DescribeHosts(*plan_, result_.comparison);
  }

  int ExitCode() const {
    bool any_done = false;
    bool all_done = true;
    for (const ComparedRun& run : result_.comparison.runs) {
      const bool done = run.state == ComparedRun::State::kDone;
      any_done |= done;
      all_done &= done;
    }
    if (all_done) return kExitDone;
    return !any_done && only_wrong_usage_ ? kExitUsage : kExitFailed;
  }

  const ComparisonOptions& options_;
  SignalQueue* const signals_;
  const std::function<absl::Status(const Comparison&)>& changed_;
  std::vector<std::unique_ptr<OutputDirectory>> folders_;  // Indexed by run.
  absl::optional<ExchangePlan> plan_;
  // True while all failed runs ended with kExitUsage.
  bool only_wrong_usage_ = true;
  double cpu_before_ = 0;  // Of this process, before the run in it.
  ComparisonResult result_;
};

}  // namespace

JobSpec JobToCompare(JobSpec job) {
  job.mutable_checkpoint()->set_every_steps(0);
  job.mutable_evaluation()->set_every_steps(0);
  job.mutable_output()->clear_directory();
  if (job.has_steps()) {
    job.mutable_output()->set_log_every_steps(
        std::max<int64_t>(1, job.steps() / kPointsOfACurve));
  }
  return job;
}

absl::StatusOr<ComparisonResult> RunComparison(
    const ComparisonOptions& options, SignalQueue* signals,
    const std::function<absl::Status(const Comparison&)>& changed) {
  return Comparer(options, signals, changed).Run();
}

}  // namespace tributary
