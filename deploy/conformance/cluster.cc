#include "deploy/conformance/cluster.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/base/json.h"
#include "common/base/monotonic_clock.h"
#include "common/base/status_macros.h"
#include "common/os/file.h"
#include "common/tensor_io/safetensors.h"
#include "nlohmann/json.hpp"
#include "server/process/server_options.h"
#include "server/process/server_process.h"
#include "worker/process/worker_process.h"

namespace tributary {
namespace {

constexpr int64_t kMaxSummaryBytes = 16 << 20;

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
      return !addresses_[shard].empty() || end_.has_value();
    };
    tributary::Await(&mu_, absl::Condition(&ready));
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
  process->thread = Thread([this, shard, server = std::move(server), process] {
    const absl::Status status = RunServer(server, &process->shutdown);
    if (shard != 0) return;
    absl::MutexLock lock(&mu_);
    end_ = status;
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
  return end_;
}

void Cluster::Await() {
  if (!servers_[0]->thread.joinable()) return;
  servers_[0]->thread.Join();
  for (size_t shard = 1; shard < servers_.size(); ++shard) {
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
  TRIBUTARY_ASSIGN_OR_RETURN(
      const std::string text,
      ReadFile(absl::StrCat(folder, "/summary.json"), kMaxSummaryBytes));
  const nlohmann::json summary = ParseJson(text);
  if (!summary.is_object()) {
    return absl::DataLossError(
        absl::StrCat(folder, "/summary.json is not a JSON object"));
  }
  result.weights_sha256 = summary.value("weights_sha256", "");
  if (summary.contains("evaluation")) {
    result.evaluation_loss = summary["evaluation"].value("loss", 0.0);
  }
  TRIBUTARY_ASSIGN_OR_RETURN(
      const SafetensorsFile file,
      SafetensorsFile::Open(absl::StrCat(folder, "/final/model.safetensors")));
  for (const TensorEntry& entry : file.tensors()) {
    std::vector<float>& values = result.weights[entry.name];
    values.resize((entry.end - entry.begin) / sizeof(float));
    TRIBUTARY_RETURN_IF_ERROR(file.ReadFloats(entry, absl::MakeSpan(values)));
  }
  return result;
}

absl::StatusOr<RunResult> TrainBuiltIn(const Cluster::Options& options,
                                       const TrainingSources& sources) {
  Cluster cluster(options);
  WorkerOptions worker;
  worker.coordinator = cluster.addresses()[0];
  if (worker.coordinator.empty()) return *cluster.end();
  worker.sources = sources;
  worker.log = cluster.log();
  Shutdown shutdown;
  const absl::Status worked = RunWorker(worker, &shutdown);
  if (!worked.ok()) return worked;
  cluster.Await();
  TRIBUTARY_RETURN_IF_ERROR(*cluster.end());
  TRIBUTARY_ASSIGN_OR_RETURN(RunResult result, ReadRunResult(options.folder));
  result.losses = cluster.losses();
  return result;
}

}  // namespace tributary
