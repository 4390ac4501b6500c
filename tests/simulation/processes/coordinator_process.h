// Shard 0 as a simulated process: the parts of RunServer around the real
// coordinator, store and checkpoints.
#ifndef TRIBUTARY_TESTS_SIMULATION_PROCESSES_COORDINATOR_PROCESS_H_
#define TRIBUTARY_TESTS_SIMULATION_PROCESSES_COORDINATOR_PROCESS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "server/coordinator/coordinator.h"
#include "server/process/resume_chooser.h"
#include "server/process/run_output.h"
#include "server/process/server_options.h"
#include "server/process/threaded_checkpoint_committer.h"
#include "server/progress/attempt_history.h"
#include "tests/simulation/processes/server_attempt.h"
#include "tests/simulation/world/world.h"

namespace tributary::simulation {

class CoordinatorProcess final : public Process {
 public:
  CoordinatorProcess(World* world, std::string name, int number);
  ~CoordinatorProcess() override;

  void Accept(Service service, const std::shared_ptr<Link>& link) override;
  bool coordinates() const override { return true; }
  const ReplicaStore* replicas() const override { return replicas_.get(); }
  std::string State() const override;

  // Simulates SIGTERM.
  void Drain() { draining_ = true; }
  // Crashes the process after `calls` more calls to the disk.
  void CrashAtDiskCall(int64_t calls);
  // Null if no attempt is in progress.
  ServerAttempt* server() const;

 private:
  class RecordingSink;
  struct Attempt;

  void OnStart() override;
  void OnCrash() override;

  void BeginAttempt();
  void Tick();
  void OnEnding(Coordinator::Ending ending);
  // Passes the model to the world, from the servers or the last checkpoint.
  absl::Status TakeResult();
  void AwaitServersGone(absl::Time deadline, const absl::Status& status);
  void EndAttempt(absl::Duration notice);
  absl::Duration NextWait();
  // Checks property P4 for a new name on the disk.
  void CheckName(const std::string& path);

  // State of the process.
  std::unique_ptr<RunOutput> output_;
  ServerOptions options_;
  std::optional<ResumeChooser> chooser_;
  std::unique_ptr<ReplicaStore> replicas_;
  int64_t attempt_number_ = 0;
  AttemptHistory history_;
  std::optional<DataFacts> data_;  // From earlier attempts.
  int expected_workers_ = 1;
  absl::Duration start_timeout_;
  absl::Duration wait_;
  absl::Time attempt_began_;
  absl::Time looked_;  // Last check for a newer attempt.
  std::optional<absl::Time> result_deadline_;
  bool draining_ = false;
  std::string resumed_from_;

  std::unique_ptr<Attempt> attempt_;
};

}  // namespace tributary::simulation

#endif  // TRIBUTARY_TESTS_SIMULATION_PROCESSES_COORDINATOR_PROCESS_H_
