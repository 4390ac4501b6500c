#include "tests/simulation/processes/server_process.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/os/file.h"
#include "server/checkpoint/checkpoint_folder.h"
#include "server/checkpoint/final_folder.h"
#include "server/checkpoint/manifest.h"
#include "server/process/server_process.h"
#include "tests/simulation/processes/model_state.h"
#include "tests/simulation/world/executor.h"

namespace tributary::simulation {

void ServerProcess::OnStart() {
  attempt_ = 0;
  shutdown_ = std::make_unique<Shutdown>();
  disk_ = std::make_unique<ProcessDisk>(
      &world_->loop, &world_->disk, &world_->disk_fault, life(),
      [this](const std::string& path) { OnRenamed(path); });
  network_ = std::make_unique<SimulatedServerNetwork>(world_, this, shard_);
  world_->servers[static_cast<size_t>(shard_)] = this;
  world_->fibers.Start(life(), [this, options = Options()] {
    const absl::Status status = RunServer(options, shutdown_.get());
    // In an event of its own, because this thread must end first.
    world_->loop.After(absl::Microseconds(10), life(), "exit",
                       [this, status] { OnOver(status); });
  });
}

ServerOptions ServerProcess::Options() {
  const Scenario& scenario = world_->scenario;
  ServerOptions options;
  options.shard = shard_;
  options.servers = scenario.servers;
  options.coordinator = "server-0";
  options.job = scenario.job;
  options.output_directory = world_->disk_folder();
  options.resume = true;
  options.expected_workers = scenario.expected_workers;
  options.start_timeout = absl::Seconds(20);
  options.lease = scenario.lease;
  options.threads = scenario.pool_threads;
  options.make_executor = [this](int threads) {
    return std::make_unique<SimulatedExecutor>(&world_->random, life(), threads,
                                               world_->random.Chance(0.2)
                                                   ? absl::Milliseconds(50)
                                                   : absl::Milliseconds(1));
  };
  options.make_secret_key = [keys = 0]() mutable {
    return absl::StrCat("key ", ++keys);
  };
  options.network = network_.get();
  options.files = disk_.get();
  options.log = world_->log;
  options.on_begin = [this](int64_t attempt, const Beginning& beginning) {
    OnBegin(attempt, beginning);
  };
  return options;
}

void ServerProcess::OnCrash() {
  world_->fibers.Unwind(number());
  network_.reset();
  disk_.reset();
  shutdown_.reset();
}

void ServerProcess::OnOver(const absl::Status& status) {
  if (coordinates() && status.ok()) world_->done = true;
  Exit(status);
}

void ServerProcess::Drain() {
  world_->loop.After(absl::ZeroDuration(), life(), "SIGTERM",
                     [this] { shutdown_->Request(); });
}

void ServerProcess::CrashAtDiskCall(int64_t calls) {
  if (running()) disk_->CrashAfter(calls);
}

const ReplicaStore* ServerProcess::replicas() const {
  return services() == nullptr ? nullptr : services()->memory();
}

void ServerProcess::Accept(Service service, const std::shared_ptr<Link>& link) {
  services()->Accept(service, link);
}

void ServerProcess::OnBegin(int64_t attempt, const Beginning& beginning) {
  world_->loop.Trace("attempt ", attempt, " begins from ", beginning.version,
                     beginning.holders.empty() ? "" : ", from memory");
  if (!beginning.holders.empty()) {
    ++world_->injected["begun from memory"];
    world_->ledger.SetFromMemory(attempt, beginning.version);
  } else if (!beginning.checkpoint.empty()) {
    const absl::StatusOr<CheckpointManifest> manifest =
        ReadManifest(beginning.checkpoint);
    // A coordinator that was overtaken may find that the other one has removed
    // the checkpoint.
    if (manifest.ok()) world_->ledger.AddAttempt(attempt, &*manifest);
  }
}

void ServerProcess::OnRenamed(const std::string& path) {
  const std::string run = world_->disk_folder();
  const std::string name = path.substr(path.rfind('/') + 1);
  if (path == absl::StrCat(run, "/attempt")) {
    const absl::StatusOr<std::string> number = ReadFile(path, /*max_bytes=*/64);
    if (!number.ok() || !absl::SimpleAtoi(*number, &attempt_)) {
      world_->Violate(absl::StrCat(path, " contains no number"));
    }
    world_->ledger.AddAttempt(attempt_, nullptr);
  } else if (absl::StartsWith(name, "step-") && !absl::StrContains(name, ".")) {
    OnCheckpoint(path);
  } else if (path == absl::StrCat(FinalFolder(run), "/", kManifestName)) {
    OnResult();
  }
}

void ServerProcess::OnCheckpoint(const std::string& path) {
  const absl::StatusOr<CheckpointManifest> manifest = ReadManifest(path);
  if (!manifest.ok()) {
    world_->Violate(absl::StrCat("P8: ", manifest.status().ToString()));
    return;
  }
  world_->loop.Trace("attempt ", attempt_, " commits version ",
                     manifest->version());
  world_->ledger.AddCommit(attempt_, *manifest);
  const int64_t newest = world_->ledger.newest_attempt();
  if (newest <= attempt_) return;
  world_->Violate(absl::StrCat("P4: attempt ", attempt_, " commits ", path,
                               " after attempt ", newest, " has begun"));
}

void ServerProcess::OnResult() {
  const absl::StatusOr<CheckpointManifest> written =
      ReadManifest(FinalFolder(world_->disk_folder()));
  if (!written.ok()) {
    world_->Violate(absl::StrCat("P8: ", written.status().ToString()));
    return;
  }
  world_->ledger.AddCommit(attempt_, *written);
  world_->result = ReadResult(world_, this, written->version());
  if (!world_->result.ok()) {
    world_->Violate(absl::StrCat("P8: ", world_->result.status().ToString()));
  }
  world_->result_attempt = attempt_;
  const StatusReply status = services()->coordinator()->GetStatus();
  world_->evaluation_loss = status.evaluation_loss();
  world_->skipped = status.skipped_steps();
}

std::string ServerProcess::State() const {
  if (!running()) return "not running";
  if (services() == nullptr) return "between attempts";
  if (coordinates()) {
    return absl::StrCat(
        "attempt ", attempt_, ": ",
        services()->coordinator()->GetStatus().ShortDebugString());
  }
  UpdateEngine* const engine = services()->engine();
  return absl::StrCat(
      network_->enlisted() ? "enlisted" : "not enlisted", ", version ",
      engine == nullptr ? -2 : engine->chunks().CompleteVersion());
}

}  // namespace tributary::simulation
