// The connections of simulated workers to other processes.
#ifndef TRIBUTARY_TESTS_SIMULATION_PROCESSES_WORKER_NETWORK_H_
#define TRIBUTARY_TESTS_SIMULATION_PROCESSES_WORKER_NETWORK_H_

#include <functional>
#include <memory>
#include <string>

#include "tests/simulation/processes/member_mesh.h"
#include "tests/simulation/processes/transfer_port.h"
#include "tests/simulation/world/link.h"
#include "tests/simulation/world/world.h"
#include "worker/process/worker_network.h"

namespace tributary::simulation {

class SimulatedWorkerNetwork final : public WorkerNetwork {
 public:
  SimulatedWorkerNetwork(World* world, std::shared_ptr<Life> process)
      : world_(world),
        process_(std::move(process)),
        members_(world, process_) {}

  // Accepts the connection of another worker: a member of an all-reduce, or
  // one of another stage.
  void Accept(Service service, const std::shared_ptr<Link>& link);

  absl::StatusOr<std::unique_ptr<MembershipStream>> ConnectToCoordinator(
      const std::string& address, absl::Duration timeout,
      const std::function<bool()>& stop) override;
  absl::StatusOr<std::unique_ptr<ExchangeStream>> ConnectToServer(
      const std::string& address, absl::Time deadline,
      const std::function<bool()>& stop) override;
  std::unique_ptr<ReplicaStream> OpenReplicaStream(
      const std::string& address, const JournalHello& hello,
      std::function<void(const absl::Status&)> lost) override;
  absl::Status ReadReplica(const std::string& address,
                           const ReadJournalRequest& request,
                           Snapshot* snapshot) override;
  absl::StatusOr<std::unique_ptr<PeerMesh>> ConnectToMembers(
      const GlooMeshOptions& options) override {
    return members_.Connect(options);
  }
  absl::StatusOr<std::unique_ptr<StagePort>> AcceptTransfers(
      const StageHost::Options& options) override;
  absl::StatusOr<StageCaller> ConnectToStage(
      const std::string& address, absl::Time deadline,
      const std::function<bool()>& stop) override;

  // Returns the phase that the worker has reported last to the coordinator, or
  // "connecting".
  const std::string& activity() const { return activity_; }

 private:
  World* const world_;
  const std::shared_ptr<Life> process_;
  MemberPort members_;
  TransferPort* transfers_ = nullptr;  // Null if the worker accepts none.
  std::string activity_ = "connecting";
};

}  // namespace tributary::simulation

#endif  // TRIBUTARY_TESTS_SIMULATION_PROCESSES_WORKER_NETWORK_H_
