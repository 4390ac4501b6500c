#include "library/job_run.h"

#include <algorithm>
#include <utility>

#include "absl/time/time.h"
#include "common/base/limits.h"
#include "common/base/monotonic_clock.h"
#include "common/base/status_macros.h"
#include "common/transport/security.h"
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
      metrics_(options.on_step, options.on_evaluation) {
  const auto make = [](int count, std::vector<std::unique_ptr<Process>>* list) {
    for (int i = 0; i < count; ++i)
      list->push_back(std::make_unique<Process>());
  };
  make(plan.servers, &servers_);
  make(plan.workers, &workers_);
}

absl::Status JobRun::Run(Shutdown* stop) {
  // Servers and workers connect over loopback, where other users of the machine
  // can connect, too.
  TRIBUTARY_ASSIGN_OR_RETURN(token_, MakeToken());
  {
    const Shutdown::Registration stopping =
        stop->OnRequest([this] { servers_[0]->shutdown.Request(); });
    StartAll();
    AwaitAll();
  }
  const absl::MutexLock lock(&mu_);
  const absl::Status& end = *servers_[0]->end;
  if (end.ok()) return end;
  if (stop->requested() && absl::IsCancelled(end)) {
    return absl::CancelledError("stopped by request");
  }
  // The server was stopped because no worker is left.
  if (absl::IsCancelled(end) && !workers_failure_.ok()) return workers_failure_;
  return end;
}

void JobRun::StartAll() {
  StartServer(0);
  {
    absl::MutexLock lock(&mu_);
    const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return !coordinator_.empty() || servers_[0]->end.has_value();
    };
    Await(&mu_, absl::Condition(&ready));
    if (coordinator_.empty()) return;  // Server 0 could not start.
  }
  for (int shard = 1; shard < plan_.servers; ++shard) StartServer(shard);
  for (int rank = 0; rank < plan_.workers; ++rank) StartWorker(rank);
}

ServerOptions JobRun::OptionsOfServer(int shard) {
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
  absl::MutexLock lock(&mu_);
  server.coordinator = coordinator_;
  return server;
}

void JobRun::StartServer(int shard) {
  Process* const process = servers_[shard].get();
  ServerOptions server = OptionsOfServer(shard);
  if (shard == 0) {
    server.on_listening = [this](const std::string& address) {
      absl::MutexLock lock(&mu_);
      coordinator_ = address;
    };
  }
  Start(process, [server = std::move(server), process] {
    return RunServer(server, &process->shutdown);
  });
}

WorkerOptions JobRun::OptionsOfWorker(int rank) {
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
  absl::MutexLock lock(&mu_);
  worker.coordinator = coordinator_;
  return worker;
}

void JobRun::StartWorker(int rank) {
  Process* const process = workers_[rank].get();
  Start(process, [this, worker = OptionsOfWorker(rank), process] {
    return options_.worker == nullptr
               ? RunWorker(worker, &process->shutdown)
               : JobWorker::Run(options_.worker, worker, QuietLog(),
                                &process->shutdown);
  });
}

void JobRun::Start(Process* process, std::function<absl::Status()> body) {
  process->thread =
      Thread([this, process, body = std::move(body)] { End(process, body()); });
}

void JobRun::End(Process* process, absl::Status status) {
  Process* const coordinator = servers_[0].get();
  bool no_worker_is_left = false;
  {
    absl::MutexLock lock(&mu_);
    process->end = std::move(status);
    if (!coordinator->end.has_value()) {
      workers_failure_ = WorkersFailure();
      no_worker_is_left = !workers_failure_.ok();
    }
  }
  if (no_worker_is_left) coordinator->shutdown.Request();
}

absl::Status JobRun::WorkersFailure() const {
  absl::Status failure;
  for (const auto& worker : workers_) {
    if (!worker->end.has_value() || worker->end->ok()) return absl::OkStatus();
    failure.Update(*worker->end);
  }
  return failure;
}

bool JobRun::AllEnded() const {
  const auto ended = [](const std::unique_ptr<Process>& process) {
    return process->end.has_value();
  };
  return std::all_of(servers_.begin(), servers_.end(), ended) &&
         std::all_of(workers_.begin(), workers_.end(), ended);
}

void JobRun::AwaitAll() {
  {
    absl::MutexLock lock(&mu_);
    const std::optional<absl::Status>& end = servers_[0]->end;
    const auto decided = [&end] { return end.has_value(); };
    Await(&mu_, absl::Condition(&decided));
    const auto all = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return AllEnded();
    };
    // After a failure, the others would try to join again.
    if (end->ok()) AwaitFor(&mu_, absl::Condition(&all), kSettleTimeout);
  }
  for (const auto* list : {&servers_, &workers_}) {
    for (const auto& process : *list) process->shutdown.Request();
  }
  for (const auto* list : {&servers_, &workers_}) {
    for (const auto& process : *list) {
      if (process->thread.joinable()) process->thread.Join();
    }
  }
}

}  // namespace tributary
