#include "library/job_run.h"

#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/limits.h"
#include "common/base/status_macros.h"
#include "common/transport/security.h"
#include "deploy/launch/job/process_threads.h"
#include "library/job_worker.h"
#include "server/process/server_process.h"
#include "worker/device/cuda/cuda_reduction_stream.h"
#include "worker/device/cuda/libraries/nccl_library.h"
#include "worker/device/factory/device_factory.h"

namespace tributary {
namespace {

// Time for the other processes to end after server 0. They end at once, except
// a worker that tries to join when the job is done.
constexpr absl::Duration kSettleTimeout = absl::Seconds(5);

std::unique_ptr<Logger> QuietLog() {
  LogOptions options;
  options.standard_error = false;
  // Only opening a file can fail.
  return *Logger::Create(options);
}

}  // namespace

JobRun::JobRun(const JobPlan& plan, const Job::Options& options,
               const std::string& folder)
    : plan_(plan),
      options_(options),
      folder_(folder),
      sources_(options.models, options.data_sets),
      metrics_(options.on_step, options.on_evaluation) {}

absl::Status JobRun::Run(Shutdown* stop) {
  // Servers and workers connect over loopback, where other users of the machine
  // can connect, too.
  TRIBUTARY_ASSIGN_OR_RETURN(token_, MakeToken());
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
  runner.server = [this](int shard, const std::string& coordinator) {
    ProcessSpec spec;
    spec.name = absl::StrCat("server-", shard);
    spec.body = [server = OptionsOfServer(shard, coordinator)](
                    Shutdown* shutdown,
                    const std::function<void(const std::string&)>& ready) {
      ServerOptions options = server;
      options.on_listening = ready;
      return RunServer(options, shutdown);
    };
    return spec;
  };
  runner.worker = [this](int rank, const std::string& coordinator) {
    ProcessSpec spec;
    spec.name = absl::StrCat("worker-", rank);
    spec.body = [this, worker = OptionsOfWorker(rank, coordinator)](
                    Shutdown* shutdown, const auto&) {
      return options_.worker == nullptr
                 ? RunWorker(worker, shutdown)
                 : JobWorker::Run(options_.worker, worker, QuietLog(),
                                  shutdown);
    };
    return spec;
  };
  runner.settle_timeout = kSettleTimeout;
  return runner;
}

ServerOptions JobRun::OptionsOfServer(int shard,
                                      const std::string& coordinator) {
  ServerOptions server;
  server.shard = shard;
  server.servers = plan_.servers;
  server.security.role = Role::kServer;
  server.security.token = token_;
  server.threads = plan_.server_threads;
  server.limits = ForWorkers(plan_.workers);
  server.expected_workers = plan_.workers;
  server.job = plan_.job;
  server.output_directory = folder_;
  server.resume = options_.resume;
  logs_.push_back(QuietLog());
  server.log = logs_.back().get();
  server.on_metrics = [this](const std::string& line) { metrics_.Add(line); };
  server.coordinator = coordinator;
  return server;
}

WorkerOptions JobRun::OptionsOfWorker(int rank,
                                      const std::string& coordinator) {
  WorkerOptions worker;
  worker.rank = rank;
  worker.security.token = token_;
  worker.threads = plan_.worker_threads;
  worker.sources = sources_;
  if (!plan_.devices.empty()) {
    worker.make_device = [device = plan_.devices[rank]](Precision precision) {
      return CreateDevice(device, precision);
    };
  }
  worker.load_nccl = &LoadNccl;
  worker.make_reduction_stream = &CreateCudaReductionStream;
  logs_.push_back(QuietLog());
  worker.log = logs_.back().get();
  worker.coordinator = coordinator;
  return worker;
}

}  // namespace tributary
