#include <memory>
#include <utility>

#include "common/base/status_macros.h"
#include "common/transport/channel.h"
#include "common/transport/grpc_client_stream.h"
#include "common/transport/replica_client.h"
#include "worker/process/worker_network.h"

namespace tributary {
namespace {

class GrpcWorkerNetwork final : public WorkerNetwork {
 public:
  explicit GrpcWorkerNetwork(const Security& security) : security_(security) {}

  absl::StatusOr<std::unique_ptr<MembershipStream>> ConnectToCoordinator(
      const std::string& address, absl::Duration timeout,
      const std::function<bool()>& stop) override {
    TRIBUTARY_ASSIGN_OR_RETURN(
        std::shared_ptr<grpc::Channel> channel,
        tributary::ConnectToCoordinator(address, security_, timeout, stop));
    return std::make_unique<GrpcClientStream<CoordinatorOrder, WorkerReport>>(
        std::move(channel), "/tributary.Rendezvous/Membership");
  }

  absl::StatusOr<std::unique_ptr<ExchangeStream>> ConnectToServer(
      const std::string& address, absl::Time deadline,
      const std::function<bool()>& stop) override {
    std::shared_ptr<grpc::Channel> channel = CreateChannel(address, security_);
    TRIBUTARY_RETURN_IF_ERROR(
        AwaitConnected(channel.get(), address, security_, deadline, stop));
    return std::make_unique<GrpcClientStream<ServerMessage, WorkerMessage>>(
        std::move(channel), "/tributary.ParameterServer/Exchange");
  }

  std::unique_ptr<ReplicaStream> OpenReplicaStream(
      const std::string& address, const JournalHello& hello,
      std::function<void(const absl::Status&)> lost) override {
    return tributary::OpenReplicaStream(
        address, security_, ReplicaPeer::kWorker, hello, std::move(lost));
  }

  absl::Status ReadReplica(const std::string& address,
                           const ReadJournalRequest& request,
                           Snapshot* snapshot) override {
    return tributary::ReadReplica(address, security_, ReplicaPeer::kWorker,
                                  request, {snapshot, {}});
  }

  absl::StatusOr<std::unique_ptr<PeerMesh>> ConnectToMembers(
      const GlooMeshOptions& options) override {
    return ConnectGlooMesh(options);
  }

  absl::StatusOr<std::unique_ptr<StagePort>> AcceptTransfers(
      const StageHost::Options& options) override {
    return StageHost::Start(options);
  }

  absl::StatusOr<StageCaller> ConnectToStage(
      const std::string& address, absl::Time deadline,
      const std::function<bool()>& stop) override {
    return GrpcStageConnector(security_)(address, deadline, stop);
  }

 private:
  const Security security_;
};

}  // namespace

std::unique_ptr<WorkerNetwork> MakeGrpcWorkerNetwork(const Security& security) {
  return std::make_unique<GrpcWorkerNetwork>(security);
}

}  // namespace tributary
