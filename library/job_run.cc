#include "library/job_run.h"

#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/os/logger.h"
#include "common/os/process.h"
#include "deploy/launch/in_process/in_process_members.h"
#include "deploy/launch/job/process_threads.h"
#include "library/job_worker.h"
#include "worker/device/cuda/cuda_reduction_stream.h"
#include "worker/device/cuda/libraries/nccl_library.h"
#include "worker/device/factory/device_factory.h"

namespace tributary {
namespace {

// Time for the other processes to end after server 0. They end at once, except
// a worker that tries to join when the job is done.
constexpr absl::Duration kSettleTimeout = absl::Seconds(5);

LogOptions QuietLog() {
  LogOptions options;
  options.standard_error = false;
  return options;
}

}  // namespace

JobRun::JobRun(const JobPlan& plan, const Job::Options& options,
               const std::string& folder)
    : plan_(plan),
      options_(options),
      folder_(folder),
      sources_(options.models, options.data_sets),
      metrics_(options.on_step, options.on_evaluation),
      network_(UsableCores()) {}

absl::Status JobRun::Run(Shutdown* stop) {
  ProcessThreads threads;
  JobRunner runner(RunnerOptions(), &threads);
  const Shutdown::Registration stopping =
      stop->OnRequest([&threads] { threads.Wake(); });
  const JobEnd end = runner.Wait([&](absl::Duration longest) {
    threads.Wait(longest);
    if (stop->requested()) runner.Pause();
    return 0;
  });
  const absl::Status server_0 = *threads.status(0);
  if (!absl::IsCancelled(server_0)) return server_0;
  if (stop->requested()) return absl::CancelledError("stopped by request");
  // Server 0 was stopped because of another error. Of the errors of workers,
  // that of the lowest rank is the most likely cause of the others.
  const auto has_failed = [&threads](int process) {
    const std::optional<absl::Status> status = threads.status(process);
    return status.has_value() && !status->ok() && !absl::IsCancelled(*status);
  };
  for (int i = 1; i < plan_.servers + plan_.workers; ++i) {
    if (!has_failed(i)) continue;
    return i < plan_.servers ? end.status : *threads.status(i);
  }
  return end.status.ok() ? server_0 : end.status;
}

JobRunnerOptions JobRun::RunnerOptions() {
  JobRunnerOptions runner = JobRunnerOptions::ForThreads();
  runner.servers = plan_.servers;
  runner.workers = plan_.workers;
  runner.server = [this](int shard, const std::string&) {
    return InProcessServer(&network_, OptionsOfServer(shard), QuietLog());
  };
  runner.worker = [this](int rank, const std::string&) {
    WorkerBody run = &RunWorker;
    if (options_.worker != nullptr) {
      run = [this](const WorkerOptions& worker, Shutdown* shutdown) {
        // Only opening a file can fail.
        return JobWorker::Run(options_.worker, worker,
                              *Logger::Create(QuietLog()), shutdown);
      };
    }
    return InProcessWorker(&network_, OptionsOfWorker(rank), QuietLog(),
                           std::move(run));
  };
  runner.on_message = options_.on_message;
  runner.settle_timeout = kSettleTimeout;
  return runner;
}

ServerOptions JobRun::OptionsOfServer(int shard) {
  ServerOptions server;
  server.shard = shard;
  server.servers = plan_.servers;
  server.threads = plan_.server_threads;
  server.expected_workers = plan_.workers;
  server.job = plan_.job;
  server.output_directory = folder_;
  server.resume = options_.resume;
  server.on_metrics = [this](const std::string& line) { metrics_.Add(line); };
  return server;
}

WorkerOptions JobRun::OptionsOfWorker(int rank) {
  WorkerOptions worker;
  worker.rank = rank;
  worker.threads = plan_.worker_threads;
  worker.sources = sources_;
  if (!plan_.devices.empty()) {
    worker.make_device = [device = plan_.devices[rank]](Precision precision) {
      return CreateDevice(device, precision);
    };
  }
  worker.load_nccl = &LoadNccl;
  worker.make_reduction_stream = &CreateCudaReductionStream;
  return worker;
}

}  // namespace tributary
