#include "deploy/tools/conformance/cluster.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/json.h"
#include "common/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "worker/process/worker_process.h"

namespace tributary {
namespace {

std::unique_ptr<Logger> FileLog(const std::string& path) {
  LogOptions options;
  options.role = "server";
  options.standard_error = false;
  options.file = path;
  absl::StatusOr<std::unique_ptr<Logger>> log = Logger::Create(options);
  if (log.ok()) return *std::move(log);
  // Without a file, creating a log cannot fail.
  options.file.clear();
  return *Logger::Create(options);
}

}  // namespace

Cluster::Cluster(const Options& options)
    : servers_(options.servers),
      log_(FileLog(options.log)),
      runner_(RunnerOptions(options), &threads_) {
  runner_.Start();
  const auto listens = [](const std::string& a) { return !a.empty(); };
  while (runner_.Advance()) {
    const std::vector<std::string> all = addresses();
    if (std::all_of(all.begin(), all.end(), listens)) return;
    threads_.Wait(runner_.Patience());
  }
}

Cluster::~Cluster() {
  Stop();
  Await();
}

JobRunnerOptions Cluster::RunnerOptions(const Options& options) {
  JobRunnerOptions runner = JobRunnerOptions::ForThreads();
  runner.servers = options.servers;
  runner.workers = options.built_in == nullptr ? 0 : 1;
  runner.server = [this, options](int shard, const std::string& coordinator) {
    ProcessSpec spec;
    spec.name = absl::StrCat("server-", shard);
    spec.body = [run = options.run,
                 server = OptionsOfServer(options, shard, coordinator)](
                    const ThreadContext& context) {
      ServerOptions listening = server;
      listening.on_listening = context.ready;
      return run(listening, context.shutdown);
    };
    return spec;
  };
  runner.worker = [this, sources = options.built_in](
                      int rank, const std::string& coordinator) {
    WorkerOptions worker;
    worker.coordinator = coordinator;
    worker.sources = *sources;
    worker.log = log_.get();
    ProcessSpec spec;
    spec.name = absl::StrCat("worker-", rank);
    spec.body = [worker](const ThreadContext& context) {
      return RunWorker(worker, context.shutdown);
    };
    return spec;
  };
  runner.settle_timeout = absl::ZeroDuration();
  return runner;
}

ServerOptions Cluster::OptionsOfServer(const Options& options, int shard,
                                       const std::string& coordinator) {
  ServerOptions server;
  server.shard = shard;
  server.servers = options.servers;
  server.job = options.job;
  server.output_directory = options.folder;
  server.expected_workers = options.workers;
  server.lease = options.lease;
  server.resume = options.resume;
  server.coordinator = coordinator;
  server.log = log_.get();
  server.on_metrics = [this](const std::string& text) {
    const nlohmann::json line = ParseJson(text);
    const auto loss = line.find("loss");
    if (loss == line.end() || !loss->is_number()) return;
    absl::MutexLock lock(&mu_);
    losses_[line.value("step", int64_t{0})] = loss->get<double>();
  };
  return server;
}

std::vector<std::string> Cluster::addresses() {
  std::vector<std::string> addresses(servers_);
  // A worker follows the servers.
  for (int i = 0; i < std::min(servers_, threads_.size()); ++i) {
    addresses[i] = threads_.ReadyText(i).value_or("");
  }
  return addresses;
}

absl::Status Cluster::start() {
  // The runner has ended the job in the constructor.
  return Ended() ? runner_.end().status : absl::OkStatus();
}

void Cluster::Stop() {
  runner_.Pause();
  runner_.Advance();
}

const absl::Status& Cluster::Await() {
  while (runner_.Advance()) threads_.Wait(runner_.Patience());
  return runner_.end().status;
}

std::map<int64_t, double> Cluster::losses() const {
  absl::MutexLock lock(&mu_);
  return losses_;
}

absl::StatusOr<RunResult> ReadRunResult(const std::string& folder) {
  RunResult result;
  TRIBUTARY_ASSIGN_OR_RETURN(const nlohmann::ordered_json summary,
                             ReadRunSummary(folder));
  result.weights_sha256 = summary.value("weights_sha256", "");
  if (summary.contains("evaluation")) {
    result.evaluation_loss = summary["evaluation"].value("loss", 0.0);
  }
  TRIBUTARY_ASSIGN_OR_RETURN(result.weights, ReadFinalModel(folder));
  return result;
}

absl::StatusOr<RunResult> TrainBuiltIn(
    Cluster::Options options, const TrainingSources& sources,
    const std::function<absl::Status()>& tick) {
  options.built_in = &sources;
  Cluster cluster(options);
  while (!cluster.Ended()) TRIBUTARY_RETURN_IF_ERROR(tick());
  TRIBUTARY_RETURN_IF_ERROR(cluster.Await());
  TRIBUTARY_ASSIGN_OR_RETURN(RunResult result, ReadRunResult(options.folder));
  result.losses = cluster.losses();
  return result;
}

}  // namespace tributary
