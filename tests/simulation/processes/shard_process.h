// A server other than shard 0 as a simulated process: the parts of RunServer
// around the real LocalServer.
#ifndef TRIBUTARY_TESTS_SIMULATION_PROCESSES_SHARD_PROCESS_H_
#define TRIBUTARY_TESTS_SIMULATION_PROCESSES_SHARD_PROCESS_H_

#include <memory>
#include <string>

#include "tests/simulation/processes/server_attempt.h"
#include "tests/simulation/world/world.h"

namespace tributary::simulation {

class ShardProcess final : public Process {
 public:
  ShardProcess(World* world, int shard, int number)
      : Process(world, absl::StrCat("server-", shard), number), shard_(shard) {}

  void Accept(Service service, const std::shared_ptr<Link>& link) override;
  std::string State() const override;
  const ReplicaStore* replicas() const override { return replicas_.get(); }
  // Null if no attempt is in progress.
  ServerAttempt* server() const { return server_.get(); }

 private:
  void OnStart() override;
  void OnCrash() override;

  void BeginAttempt();
  void OnOrder(const ServerOrder& order);
  void Beat();
  // Called when the enlistment has ended.
  void OnGone(const absl::Status& status);
  void AwaitStreams(absl::Time deadline);
  void EndAttempt(absl::Duration notice);

  const int shard_;
  bool enlisted_ = false;
  absl::Time last_seen_;
  absl::Duration wait_;
  absl::Time attempt_began_;

  std::unique_ptr<ReplicaStore> replicas_;

  // State of an attempt.
  std::unique_ptr<ServerAttempt> server_;
  std::shared_ptr<Link> link_;
  bool finished_ = false;
  bool stopped_ = false;
};

}  // namespace tributary::simulation

#endif  // TRIBUTARY_TESTS_SIMULATION_PROCESSES_SHARD_PROCESS_H_
