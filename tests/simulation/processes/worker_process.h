// A worker as a simulated process: RunWorker, with a tiny model and data set.
#ifndef TRIBUTARY_TESTS_SIMULATION_PROCESSES_WORKER_PROCESS_H_
#define TRIBUTARY_TESTS_SIMULATION_PROCESSES_WORKER_PROCESS_H_

#include <memory>
#include <string>
#include <utility>

#include "common/base/shutdown.h"
#include "tests/simulation/processes/worker_network.h"
#include "tests/simulation/world/world.h"

namespace tributary::simulation {

class WorkerProcess final : public Process {
 public:
  // `rank` is the rank that the worker requests. A micro-batch takes about
  // `micro_batch`.
  WorkerProcess(World* world, int place, int number, int rank, int threads,
                absl::Duration micro_batch)
      : Process(world, absl::StrCat("worker-", place), number),
        rank_(rank),
        threads_(threads),
        micro_batch_(micro_batch) {}

  // Accepts the connections of other workers.
  void Accept(Service service, const std::shared_ptr<Link>& link) override {
    network_->Accept(service, link);
  }
  std::string State() const override;

 private:
  void OnStart() override;
  void OnCrash() override;
  void OnOver(const absl::Status& status);

  int rank_;
  const int threads_;
  const absl::Duration micro_batch_;
  std::unique_ptr<Shutdown> shutdown_;
  std::unique_ptr<SimulatedWorkerNetwork> network_;
};

}  // namespace tributary::simulation

#endif  // TRIBUTARY_TESTS_SIMULATION_PROCESSES_WORKER_PROCESS_H_
