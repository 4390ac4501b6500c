#include "deploy/commands/train_plan.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/status_macros.h"
#include "common/job/job.h"
#include "common/os/process.h"
#include "common/plan/memory_account.h"
#include "common/text/counted.h"
#include "common/text/escape.h"
#include "deploy/commands/server_command.h"
#include "deploy/flags/device_flag.h"
#include "deploy/flags/environment.h"
#include "deploy/flags/output_directory.h"
#include "deploy/flags/thread_counts.h"
#include "deploy/flags/worker_count.h"
#include "deploy/launch/plan/memory_fit.h"
#include "deploy/launch/plan/micro_batches.h"
#include "deploy/launch/slurm/slurm_placement.h"
#include "deploy/launch/train/launch_record.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/factory/device_factory.h"
#include "worker/models/model.h"

namespace tributary {
namespace {

constexpr int64_t kDefaultWorkers = 2;

// A resumed run uses its own folder and job unless others are given.
// `has_default` is true if the default folder of the run is known.
absl::Status FillFromResume(const TrainFlags& flags, bool has_default,
                            JobSource* source) {
  if (flags.launch.resume.empty()) return absl::OkStatus();
  if (flags.overwrite) {
    return absl::InvalidArgumentError(
        "--resume continues a run and --overwrite removes it: set only one of "
        "them");
  }
  if (flags.launch.resume == kResumeAuto) {
    const std::string recorded =
        absl::StrCat(source->output_directory, "/job.textproto");
    std::error_code ignored;
    if (source->path.empty() && !source->output_directory.empty() &&
        std::filesystem::exists(recorded, ignored)) {
      source->path = recorded;
    }
    if (!source->output_directory.empty() || has_default) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        "--resume auto requires --output DIR, the folder of the run");
  }
  const std::string job = absl::StrCat(flags.launch.resume, "/job.textproto");
  std::error_code error;
  const bool is_run = std::filesystem::exists(job, error);
  if (!std::filesystem::is_directory(flags.launch.resume, error)) {
    return absl::NotFoundError(
        absl::StrCat("--resume ", flags.launch.resume, ": no such folder"));
  }
  if (is_run && source->output_directory.empty()) {
    source->output_directory = flags.launch.resume;
  }
  if (source->path.empty()) {
    // A checkpoint is at RUN/checkpoints/step-NNNNNNNN.
    source->path =
        is_run ? job
               : absl::StrCat(flags.launch.resume, "/../../job.textproto");
  }
  return absl::OkStatus();
}

// Returns the folder of the run that --resume names. `job` is the resolved job.
std::string RunToResume(const std::string& resume, const JobSpec& job) {
  if (resume == kResumeAuto) return job.output().directory();
  std::error_code error;
  if (std::filesystem::exists(absl::StrCat(resume, "/job.textproto"), error)) {
    return resume;
  }
  // A checkpoint is at RUN/checkpoints/step-NNNNNNNN.
  return absl::StrCat(resume, "/../..");
}

// Sets those flags that are not set to the values with which the resumed run
// was started. An allocation decides the numbers of processes itself. Also sets
// launch.worker_folder.
absl::Status FillFromRecord(const CommandLine& line, bool on_cluster,
                            const JobSpec& job, TrainFlags* flags,
                            std::vector<std::string>* remarks) {
  if (flags->launch.resume.empty() || flags->in_process) {
    return absl::OkStatus();
  }
  const std::string run = RunToResume(flags->launch.resume, job);
  TRIBUTARY_ASSIGN_OR_RETURN(const absl::optional<LaunchRecord> record,
                             ReadLaunchRecord(run));
  if (!record.has_value()) return absl::OkStatus();
  if (!on_cluster) {
    if (line.OriginOf("workers").empty()) flags->workers = record->workers;
    if (line.OriginOf("spares").empty()) flags->spares = record->spares;
    if (line.OriginOf("servers").empty()) flags->servers = record->servers;
  }
  if (!flags->launch.worker_command.empty() || record->worker_command.empty()) {
    return absl::OkStatus();
  }
  TRIBUTARY_RETURN_IF_ERROR(CheckWorkingFolder(run, *record));
  flags->launch.worker_command = record->worker_command;
  // The text comes from a file of the run.
  remarks->push_back(EscapeForTerminal(absl::StrCat(
      "starting the run's worker command: ", record->worker_command)));
  std::error_code error;
  if (!std::filesystem::equivalent(record->working_folder, ".", error)) {
    flags->launch.worker_folder = record->working_folder;
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
absl::Status FindMicroBatchesOf(const TrainFlags& flags, int64_t workers,
                                const DeviceName& device,
                                const TrainingSources& sources, JobSpec* job) {
  if (job->batch().micro_batches() != kFindMicroBatches) {
    return absl::OkStatus();
  }
  int64_t count = flags.launch.resume.empty()
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

// Returns the values of --devices, one for each worker.
std::vector<std::string> DevicesOf(const TrainFlags& flags) {
  return absl::StrSplit(flags.devices, ',', absl::SkipEmpty());
}

absl::Status ReadWorkers(const CommandLine& line, const TrainFlags& flags,
                         const absl::optional<Allocation>& allocation,
                         WorkerCount* workers) {
  if (!flags.devices.empty()) {
    workers->most = workers->fewest =
        static_cast<int64_t>(DevicesOf(flags).size());
    return absl::OkStatus();
  }
  if (flags.workers.empty()) {
    workers->most = workers->fewest =
        allocation.has_value()
            ? std::max<int64_t>(1, TasksForWorkers(*allocation) - flags.spares)
            : kDefaultWorkers;
    return absl::OkStatus();
  }
  const auto count = ParseWorkerCount(flags.workers, kMostTrainWorkers);
  if (!count.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(line.OriginOf("workers"), ": ", count.status().message()));
  }
  *workers = *count;
  return absl::OkStatus();
}

// Returns "8 workers can compute at the same time, because batch.micro_batches
// is 8".
std::string WhoCanCompute(const JobSpec& job) {
  return absl::StrCat(
      Counted(MostComputing(job), "worker"),
      " can compute at the same time, because batch.micro_batches is ",
      job.batch().micro_batches(),
      job.parallel().has_pipeline()
          ? absl::StrCat(" and parallel.pipeline.stages is ",
                         job.parallel().pipeline().stages())
          : "");
}

// Returns whether `spares` workers more than `workers` are too few for another
// replica of a pipeline.
bool StandBy(const JobSpec& job, int64_t workers, int64_t spares) {
  const int64_t stages = job.parallel().pipeline().stages();
  return stages > 0 && workers >= stages &&
         (workers + spares) / stages == workers / stages;
}

// Limits the number of workers to those that can compute, and rejects spares
// that would compute.
absl::Status FitWorkers(const CommandLine& line, const TrainFlags& flags,
                        JobLaunch* plan, std::vector<std::string>* remarks) {
  const int64_t most = MostComputing(plan->job);
  if (plan->workers.most > most) {
    if (!flags.workers.empty()) {
      const std::string origin = line.OriginOf("workers");
      remarks->push_back(absl::StrCat(
          "warning: ", origin.empty() ? "the run's --workers" : origin, " ",
          flags.workers, ": ", WhoCanCompute(plan->job),
          ", so no more are started; raise ",
          "batch.micro_batches to use more, or add --spares N for "
          "workers that stand by"));
    }
    plan->workers.most = most;
    plan->workers.fewest = std::min(plan->workers.fewest, most);
  }
  plan->spares = flags.spares;
  if (plan->spares == 0 || plan->workers.most == most ||
      StandBy(plan->job, plan->workers.most, plan->spares)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      line.OriginOf("spares"), " ", flags.spares, ": ",
      most > kMostTrainWorkers
          ? std::string("in consistency mode asynchronous every worker "
                        "computes; raise --workers instead")
          : absl::StrCat(
                WhoCanCompute(plan->job), ", and ", plan->workers.most,
                " are requested, so none would stand by; add --workers ",
                most)));
}

// Rejects flags that have no meaning without processes, and --devices with
// them.
absl::Status CheckInProcess(const CommandLine& line, const TrainFlags& flags,
                            const absl::optional<Allocation>& allocation) {
  if (!flags.in_process) {
    if (flags.devices.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "--devices lists the devices of --in-process; add that flag, or use "
        "--workers and --device");
  }
  if (allocation.has_value()) {
    return absl::InvalidArgumentError(
        "--in-process trains in one process of one machine; in an allocation "
        "of Slurm, leave it out, or add --launcher local");
  }
  for (const char* flag : {"worker-command", "metrics-listen", "tls-dir",
                           "token-file", "max-restarts"}) {
    if (line.OriginOf(flag).empty()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--", flag, " is for processes: leave out --in-process, ",
                     "or --", flag));
  }
  for (const char* flag : {"workers", "device"}) {
    if (flags.devices.empty() || line.OriginOf(flag).empty()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "--devices names the device of each worker: leave out --", flag));
  }
  return absl::OkStatus();
}

// Chooses the device of each worker and spare, by rank.
absl::StatusOr<std::vector<DeviceName>> ChooseInProcessDevices(
    const TrainFlags& flags, int64_t workers) {
  std::vector<std::string> values = DevicesOf(flags);
  if (values.empty()) values = {flags.device};
  const Gpus gpus = MachineGpus();
  std::vector<DeviceName> devices;
  for (int64_t rank = 0; rank < workers; ++rank) {
    std::string remark;
    TRIBUTARY_ASSIGN_OR_RETURN(
        const DeviceName device,
        ChooseDevice(values[rank % values.size()], /*place=*/rank, gpus,
                     &remark, flags.devices.empty() ? "device" : "devices"));
    devices.push_back(device);
  }
  return devices;
}

// Rejects a GPU for a job whose workers compute parts of the model.
absl::Status CheckDevice(const JobLaunch& plan, const DeviceName& device) {
  if (!ComputesInParts(plan.job) || !plan.worker_command.empty() ||
      device.kind != DeviceName::Kind::kCuda) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      plan.job.parallel().has_pipeline() ? "parallel.pipeline"
                                         : "parallel.sharded_weights",
      " computes on CPUs only, and the workers would use ",
      FormatDeviceName(device), "; add --device cpu, or leave the field out"));
}

// Makes the job and its processes fit into the memory of this machine.
absl::Status Fit(const TrainFlags& flags, bool on_cluster,
                 const DeviceName& device, const TrainingSources& sources,
                 JobLaunch* plan, std::vector<std::string>* remarks) {
  if (on_cluster || !plan->worker_command.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--fit knows only the memory of this machine, and models of "
        "Tributary; leave it out ",
        on_cluster ? "in an allocation of Slurm" : "with --worker-command"));
  }
  if (!flags.launch.resume.empty()) {
    // What the first run has chosen decides the result. The numbers of threads
    // and workers do not, and are chosen again.
    const absl::StatusOr<JobSpec> recorded =
        LoadJob(absl::StrCat(plan->job.output().directory(), "/job.textproto"));
    if (recorded.ok()) {
      *plan->job.mutable_batch() = recorded->batch();
      *plan->job.mutable_evaluation() = recorded->evaluation();
      *plan->job.mutable_parallel() = recorded->parallel();
      plan->job.set_precision(recorded->precision());
    }
  }
  const absl::Cleanup leave = [&device] {
    if (device.kind == DeviceName::Kind::kCuda) LeaveCuda(device.ordinal);
  };
  TRIBUTARY_ASSIGN_OR_RETURN(const std::unique_ptr<Device> made,
                             CreateDevice(device, PrecisionOf(plan->job)));
  FitInputs inputs;
  inputs.job = plan->job;
  inputs.workers = plan->workers.most + plan->spares;
  inputs.servers = plan->servers;
  inputs.threads = plan->threads;
  inputs.one_process = flags.in_process;
  inputs.fixed_workers = !flags.devices.empty();
  inputs.devices = flags.device == FormatDeviceName(device)
                       ? 1
                       : CountCudaDevices().value_or(1);
  inputs.host_bytes = AvailableMemoryBytes();
  inputs.process_bytes = AddressSpaceLimit();
  TRIBUTARY_ASSIGN_OR_RETURN(const JobFit fit,
                             FitJob(inputs, made.get(), sources));
  plan->job = fit.job;
  plan->threads = fit.threads;
  if (fit.workers != inputs.workers) {
    plan->workers.most = plan->workers.fewest = fit.workers;
    plan->spares = 0;
  }
  remarks->push_back(absl::StrCat(
      "fit: needs ", FormatMemory(fit.needed_bytes), " of ",
      FormatMemory(fit.available_bytes),
      fit.changes.empty()
          ? " without a change"
          : absl::StrCat(" with ", absl::StrJoin(fit.changes, " "))));
  return absl::OkStatus();
}

absl::Status CheckMetricsListen(const JobLaunch& plan, bool on_cluster) {
  if (plan.metrics_listen.empty()) return absl::OkStatus();
  if (on_cluster) {
    return absl::InvalidArgumentError(
        "--metrics-listen works on one machine only; in an allocation of "
        "Slurm, leave it out");
  }
  TRIBUTARY_ASSIGN_OR_RETURN(const HostPort first,
                             ParseHostPort(plan.metrics_listen));
  const int64_t processes = plan.servers + plan.workers.most + plan.spares;
  if (first.port == 0 || first.port + processes > 65536) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--metrics-listen ", plan.metrics_listen, ": the ",
        Counted(processes, "process", "processes"),
        " use this port and those after it; pass a port from 1 to ",
        65536 - processes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TrainPlan> MakeTrainPlan(
    const CommandLine& line, TrainFlags flags,
    const absl::optional<Allocation>& allocation,
    const TrainingSources& sources, std::vector<std::string>* remarks) {
  TRIBUTARY_RETURN_IF_ERROR(CheckInProcess(line, flags, allocation));
  JobSource source = flags.source;
  if (flags.log_every > 0) source.log_every_steps = flags.log_every;
  source.trace_steps = flags.trace_steps;
  source.output_directory = flags.output;
  source.finds_micro_batches = true;
  TRIBUTARY_RETURN_IF_ERROR(
      FillFromResume(flags, allocation.has_value(), &source));
  DeviceName device;
  TRIBUTARY_ASSIGN_OR_RETURN(JobSpec job, ReadJob(source, remarks));
  if (allocation.has_value()) SetSlurmOutput(*allocation, &job);
  TRIBUTARY_RETURN_IF_ERROR(
      FillFromRecord(line, allocation.has_value(), job, &flags, remarks));
  JobLaunch plan = flags.launch;
  plan.job = std::move(job);
  for (const Role role : {Role::kServer, Role::kWorker}) {
    TRIBUTARY_RETURN_IF_ERROR(
        ReadSecurity(flags.launch.security, {role}).status());
  }
  TRIBUTARY_ASSIGN_OR_RETURN(
      plan.own_security,
      ReadSecurity(flags.launch.security, {Role::kAdmin, Role::kServer}));
  std::string remark;
  TRIBUTARY_ASSIGN_OR_RETURN(
      device, ChooseDevice(flags.devices.empty() ? flags.device
                                                 : DevicesOf(flags).front(),
                           /*place=*/0, ListedGpus(), &remark,
                           flags.devices.empty() ? "device" : "devices"));
  TRIBUTARY_RETURN_IF_ERROR(CheckDevice(plan, device));
  plan.worker_device = DeviceOfAll(flags.device, device);
  TRIBUTARY_ASSIGN_OR_RETURN(
      const DeviceName server_device,
      ChooseServerDevice(plan.job, flags.server_device, /*place=*/0,
                         ListedGpus(), &remark, "server-device"));
  plan.server_device = DeviceOfAll(flags.server_device, server_device);
  TRIBUTARY_RETURN_IF_ERROR(
      ReadWorkers(line, flags, allocation, &plan.workers));
  TRIBUTARY_RETURN_IF_ERROR(
      FindMicroBatchesOf(flags, plan.workers.most, device, sources, &plan.job));
  TRIBUTARY_RETURN_IF_ERROR(FitWorkers(line, flags, &plan, remarks));
  plan.servers = static_cast<int>(std::max<int64_t>(1, flags.servers));
  plan.threads = flags.threads > 0 ? static_cast<int>(flags.threads)
                                   : DefaultWorkerThreads(
                                         plan.job, plan.workers.most, device);
  if (flags.fit) {
    TRIBUTARY_RETURN_IF_ERROR(
        Fit(flags, allocation.has_value(), device, sources, &plan, remarks));
  }
  plan.output = plan.job.output().directory();
  if (plan.output.empty()) {
    plan.output = FreshOutputDirectory(plan.job.name());
  }
  TRIBUTARY_RETURN_IF_ERROR(
      CheckMetricsListen(plan, /*on_cluster=*/allocation.has_value()));
  if (flags.in_process) {
    InProcessDevices devices;
    devices.server = FormatDeviceName(server_device);
    devices.make_passes = PassesOn(server_device, plan.ThreadsOfServer());
    TRIBUTARY_ASSIGN_OR_RETURN(
        devices.workers,
        ChooseInProcessDevices(flags, plan.workers.most + plan.spares));
    const DeviceName first = devices.workers.front();
    return TrainPlan{std::move(plan), first, absl::nullopt, std::move(devices)};
  }
  if (!allocation.has_value()) {
    return TrainPlan{std::move(plan), device, absl::nullopt, absl::nullopt};
  }
  // The other nodes may have GPUs that this node lacks.
  if (allocation->heterogeneous()) plan.worker_device = flags.device;
  TRIBUTARY_ASSIGN_OR_RETURN(
      SlurmPlacement placement,
      PlaceTraining(*allocation, plan, flags.servers, flags.slurm.port));
  plan.servers = static_cast<int>(placement.servers.size());
  plan.workers.most =
      static_cast<int64_t>(placement.workers.size()) - plan.spares;
  SlurmTraining slurm{plan, *allocation, std::move(placement), flags.threads};
  return TrainPlan{std::move(plan), device, std::move(slurm), absl::nullopt};
}

}  // namespace tributary
