#include "library/job_plan.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "deploy/flags/device_flag.h"
#include "deploy/flags/job_source.h"
#include "deploy/flags/thread_counts.h"
#include "deploy/flags/worker_count.h"

namespace tributary {
namespace {

// The limits of `tributary train`.
constexpr int kMostServers = 256;
constexpr int kMostWorkers = 1024;
constexpr int kMostThreads = 1024;

absl::Status CheckRange(const char* option, int value, int min, int max) {
  if (value >= min && value <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      option, " is ", value, ", expected a number from ", min, " to ", max));
}

int WorkersOf(const Job::Options& options) {
  return options.devices.empty() || options.worker != nullptr
             ? options.workers
             : static_cast<int>(options.devices.size());
}

absl::Status CheckOptions(const Job::Options& options) {
  if (options.file.empty() == options.text.empty()) {
    return absl::InvalidArgumentError(
        options.file.empty() ? "there is no job: set file or text"
                             : "file and text are both set: set one of them");
  }
  if (options.resume && options.overwrite) {
    return absl::InvalidArgumentError(
        "resume continues a run and overwrite removes it: set only one of "
        "them");
  }
  if (options.resume && options.output_directory.empty()) {
    return absl::InvalidArgumentError(
        "resume requires output_directory, the folder of the run");
  }
  TRIBUTARY_RETURN_IF_ERROR(options.models.status());
  TRIBUTARY_RETURN_IF_ERROR(options.data_sets.status());
  TRIBUTARY_RETURN_IF_ERROR(
      CheckRange("servers", options.servers, 1, kMostServers));
  TRIBUTARY_RETURN_IF_ERROR(
      CheckRange("workers", WorkersOf(options), 1, kMostWorkers));
  return CheckRange("threads", options.threads, 0, kMostThreads);
}

absl::StatusOr<JobSpec> ReadJobOf(const Job::Options& options) {
  JobSource source;
  source.path = options.file;
  source.text = options.text;
  source.sets = options.set;
  source.output_directory = options.output_directory;
  // Each step has a line of metrics.
  if (options.on_step != nullptr) source.log_every_steps = 1;
  return ReadJob(source);
}

absl::Status ChooseDevices(const Job::Options& options, JobPlan* plan) {
  const Gpus gpus = MachineGpus();
  for (int worker = 0; worker < plan->workers; ++worker) {
    std::string remark;
    TRIBUTARY_ASSIGN_OR_RETURN(
        const DeviceName device,
        ChooseDevice(
            options.devices.empty() ? options.device : options.devices[worker],
            /*place=*/worker, gpus, &remark));
    plan->devices.push_back(device);
  }
  plan->worker_threads =
      options.threads > 0
          ? options.threads
          : DefaultWorkerThreads(plan->job, plan->workers, plan->devices[0]);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<JobPlan> PlanJob(const Job::Options& options) {
  TRIBUTARY_RETURN_IF_ERROR(CheckOptions(options));
  JobPlan plan;
  TRIBUTARY_ASSIGN_OR_RETURN(plan.job, ReadJobOf(options));
  plan.servers = options.servers;
  plan.server_threads = ServerThreads(options.servers);
  plan.workers = static_cast<int>(
      std::min<int64_t>(WorkersOf(options), MostComputing(plan.job)));
  if (options.worker == nullptr) {
    TRIBUTARY_RETURN_IF_ERROR(ChooseDevices(options, &plan));
  }
  return plan;
}

}  // namespace tributary
