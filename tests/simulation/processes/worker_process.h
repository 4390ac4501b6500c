// A worker as a simulated process: a sequence of stays, as in RunWorker.
#ifndef TRIBUTARY_TESTS_SIMULATION_PROCESSES_WORKER_PROCESS_H_
#define TRIBUTARY_TESTS_SIMULATION_PROCESSES_WORKER_PROCESS_H_

#include <memory>
#include <string>

#include "tests/simulation/processes/worker_stay.h"
#include "tests/simulation/world/world.h"

namespace tributary::simulation {

class WorkerProcess final : public Process {
 public:
  // `rank` is the rank that the worker requests.
  WorkerProcess(World* world, int place, int number, int rank,
                absl::Duration micro_batch)
      : Process(world, absl::StrCat("worker-", place), number),
        rank_(rank),
        micro_batch_(micro_batch) {}

  void Accept(Service, const std::shared_ptr<Link>&) override {}
  std::string State() const override;

 private:
  void OnStart() override;
  void OnCrash() override;
  void BeginStay();
  void OnOver(const absl::Status& status);

  int rank_;
  const absl::Duration micro_batch_;
  bool was_in_ = false;
  absl::Time patience_ends_;
  absl::Duration wait_;
  absl::Time stay_began_;
  std::shared_ptr<Life> scope_;
  std::unique_ptr<WorkerStay> stay_;
};

}  // namespace tributary::simulation

#endif  // TRIBUTARY_TESTS_SIMULATION_PROCESSES_WORKER_PROCESS_H_
