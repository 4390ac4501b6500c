#include "tests/simulation/processes/worker_process.h"

#include "absl/strings/match.h"
#include "tests/simulation/processes/tiny_training.h"
#include "worker/process/worker_process.h"

namespace tributary::simulation {

void WorkerProcess::OnStart() {
  shutdown_ = std::make_unique<Shutdown>();
  network_ = std::make_unique<SimulatedWorkerNetwork>(world_, life());
  Listen(life());
  WorkerOptions options;
  options.coordinator = "server-0";
  options.rank = rank_;
  options.threads = threads_;
  options.network = network_.get();
  options.host = name();
  options.insecure_network = true;
  options.log = world_->log;
  options.heartbeat_interval = absl::Milliseconds(500);
  options.sources = TinySources(world_, micro_batch_);
  world_->fibers.Start(life(), [this, options] {
    const absl::Status status = RunWorker(options, shutdown_.get());
    // In an event of its own, because this thread must end first.
    world_->loop.After(absl::Microseconds(10), life(), "exit",
                       [this, status] { OnOver(status); });
  });
}

void WorkerProcess::OnCrash() {
  world_->fibers.Unwind(number());
  network_.reset();
  shutdown_.reset();
}

void WorkerProcess::OnOver(const absl::Status& status) {
  // An operator who gave two workers the same rank corrects that.
  if (absl::StrContains(status.message(), "was taken over")) rank_ = -1;
  Exit(status);
}

std::string WorkerProcess::State() const {
  return running() ? network_->activity() : "not running";
}

}  // namespace tributary::simulation
