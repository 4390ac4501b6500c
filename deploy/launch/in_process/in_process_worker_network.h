// A worker's end of an InProcessNetwork.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_IN_PROCESS_IN_PROCESS_WORKER_NETWORK_H_
#define TRIBUTARY_DEPLOY_LAUNCH_IN_PROCESS_IN_PROCESS_WORKER_NETWORK_H_

#include <functional>
#include <memory>
#include <string>

#include "deploy/launch/in_process/in_process_network.h"
#include "worker/process/worker_network.h"

namespace tributary {

class InProcessWorkerNetwork final : public WorkerNetwork {
 public:
  // `network` must outlive this object.
  explicit InProcessWorkerNetwork(InProcessNetwork* network)
      : network_(network) {}

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
      const GlooMeshOptions& options) override;
  absl::StatusOr<std::unique_ptr<StagePort>> AcceptTransfers(
      const StageHost::Options& options) override;
  absl::StatusOr<StageCaller> ConnectToStage(
      const std::string& address, absl::Time deadline,
      const std::function<bool()>& stop) override;

 private:
  InProcessNetwork* const network_;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_IN_PROCESS_IN_PROCESS_WORKER_NETWORK_H_
