#include "deploy/tools/conformance/cluster.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "common/base/json.h"
#include "common/base/monotonic_clock.h"
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

Cluster::Cluster(const Options& options) : log_(FileLog(options.log)) {
  for (int shard = 0; shard < options.servers; ++shard) {
    servers_.push_back(std::make_unique<Server>());
  }
  addresses_.resize(options.servers);
  for (int shard = 0; shard < options.servers; ++shard) {
    Start(options, shard);
    absl::MutexLock lock(&mu_);
    const auto ready = [this, shard]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return !addresses_[shard].empty() || ends_.count(0) > 0 ||
             ends_.count(shard) > 0;
    };
    tributary::Await(&mu_, absl::Condition(&ready));
    // The other servers could not find this one.
    if (addresses_[shard].empty()) return;
  }
}

void Cluster::Start(const Options& options, int shard) {
  ServerOptions server;
  server.shard = shard;
  server.servers = options.servers;
  server.job = options.job;
  server.output_directory = options.folder;
  server.expected_workers = options.workers;
  server.lease = options.lease;
  server.resume = options.resume;
  server.coordinator = addresses()[0];
  server.log = log_.get();
  server.on_listening = [this, shard](const std::string& address) {
    absl::MutexLock lock(&mu_);
    addresses_[shard] = address;
  };
  server.on_metrics = [this](const std::string& text) {
    const nlohmann::json line = ParseJson(text);
    const auto loss = line.find("loss");
    if (loss == line.end() || !loss->is_number()) return;
    absl::MutexLock lock(&mu_);
    losses_[line.value("step", int64_t{0})] = loss->get<double>();
  };
  Server* const process = servers_[shard].get();
  process->thread = Thread(
      [this, shard, server = std::move(server), process, run = options.run] {
        const absl::Status status = run(server, &process->shutdown);
        absl::MutexLock lock(&mu_);
        ends_[shard] = status;
      });
}

Cluster::~Cluster() {
  Stop();
  Await();
}

std::vector<std::string> Cluster::addresses() const {
  absl::MutexLock lock(&mu_);
  return addresses_;
}

std::optional<absl::Status> Cluster::end() const {
  absl::MutexLock lock(&mu_);
  const auto end = ends_.find(0);
  if (end == ends_.end()) return std::nullopt;
  return end->second;
}

absl::Status Cluster::start() const {
  absl::MutexLock lock(&mu_);
  for (size_t shard = 0; shard < addresses_.size(); ++shard) {
    if (!addresses_[shard].empty()) continue;
    const auto end = ends_.find(static_cast<int>(shard));
    return end == ends_.end() ? ends_.at(0) : end->second;
  }
  return absl::OkStatus();
}

void Cluster::Await() {
  if (!servers_[0]->thread.joinable()) return;
  servers_[0]->thread.Join();
  for (size_t shard = 1; shard < servers_.size(); ++shard) {
    if (!servers_[shard]->thread.joinable()) continue;
    servers_[shard]->shutdown.Request();
    servers_[shard]->thread.Join();
  }
}

std::map<int64_t, double> Cluster::losses() const {
  absl::MutexLock lock(&mu_);
  return losses_;
}

absl::StatusOr<RunResult> ReadRunResult(const std::string& folder) {
  RunResult result;
  TRIBUTARY_ASSIGN_OR_RETURN(const std::string text, ReadRunSummary(folder));
  const nlohmann::json summary = ParseJson(text);
  if (!summary.is_object()) {
    return absl::DataLossError(
        absl::StrCat(folder, "/summary.json is not a JSON object"));
  }
  result.weights_sha256 = summary.value("weights_sha256", "");
  if (summary.contains("evaluation")) {
    result.evaluation_loss = summary["evaluation"].value("loss", 0.0);
  }
  TRIBUTARY_ASSIGN_OR_RETURN(result.weights, ReadFinalModel(folder));
  return result;
}

absl::StatusOr<RunResult> TrainBuiltIn(
    const Cluster::Options& options, const TrainingSources& sources,
    const std::function<absl::Status()>& tick) {
  Cluster cluster(options);
  TRIBUTARY_RETURN_IF_ERROR(cluster.start());
  WorkerOptions worker;
  worker.coordinator = cluster.addresses()[0];
  worker.sources = sources;
  worker.log = cluster.log();
  Shutdown shutdown;
  absl::Status worked;
  absl::Notification ended;
  Thread thread([&] {
    worked = RunWorker(worker, &shutdown);
    ended.Notify();
  });
  absl::Status stopped;
  while (!ended.HasBeenNotified() && stopped.ok()) stopped = tick();
  if (!stopped.ok()) shutdown.Request();
  thread.Join();
  TRIBUTARY_RETURN_IF_ERROR(stopped);
  TRIBUTARY_RETURN_IF_ERROR(worked);
  cluster.Await();
  TRIBUTARY_RETURN_IF_ERROR(*cluster.end());
  TRIBUTARY_ASSIGN_OR_RETURN(RunResult result, ReadRunResult(options.folder));
  result.losses = cluster.losses();
  return result;
}

}  // namespace tributary
