#include "deploy/launch/in_process/in_process_worker_network.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/monotonic_clock.h"
#include "common/os/shared_memory.h"
#include "common/stream/replica_stream.h"

namespace tributary {
namespace {

class InProcessStagePort final : public StagePort {
 public:
  explicit InProcessStagePort(InProcessNetwork* network)
      : network_(network),
        port_(std::make_shared<LocalStagePort>(network->executor())),
        address_(network->Publish(port_)) {
    local_.set_host(HostIdentity());
    local_.set_address(address_);
  }
  ~InProcessStagePort() override {
    network_->Withdraw(address_);
    port_->ShutDown();
  }

  void Serve(const StageReceiver::Worker& worker) override {
    port_->Serve(worker);
  }
  const std::string& address() const override { return address_; }
  const LocalAddress& local_address() const override { return local_; }

 private:
  InProcessNetwork* const network_;
  const std::shared_ptr<LocalStagePort> port_;
  const std::string address_;
  LocalAddress local_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<MembershipStream>>
InProcessWorkerNetwork::ConnectToCoordinator(
    const std::string& address, absl::Duration timeout,
    const std::function<bool()>& stop) {
  const std::shared_ptr<ServerPort> port =
      network_->AwaitServer(address, MonotonicNow() + timeout, stop);
  if (port != nullptr) return port->Membership();
  if (stop()) return absl::CancelledError("stopped by request");
  return absl::UnavailableError("server 0 does not accept calls");
}

absl::StatusOr<std::unique_ptr<ExchangeStream>>
InProcessWorkerNetwork::ConnectToServer(const std::string& address,
                                        absl::Time deadline,
                                        const std::function<bool()>& stop) {
  const std::shared_ptr<ServerPort> port =
      network_->AwaitServer(address, deadline, stop);
  if (port != nullptr) return port->Exchange();
  return absl::DeadlineExceededError(
      absl::StrCat("no connection to ", address));
}

std::unique_ptr<ReplicaStream> InProcessWorkerNetwork::OpenReplicaStream(
    const std::string& address, const JournalHello& hello,
    std::function<void(const absl::Status&)> lost) {
  return StartReplicaStream(network_->FindServer(address)->SaveState(), address,
                            hello, std::move(lost));
}

absl::Status InProcessWorkerNetwork::ReadReplica(
    const std::string& address, const ReadJournalRequest& request,
    Snapshot* snapshot) {
  return network_->FindServer(address)->ReadState(request, snapshot);
}

absl::StatusOr<std::unique_ptr<PeerMesh>>
InProcessWorkerNetwork::ConnectToMembers(const GlooMeshOptions& options) {
  return network_->meshes()->Connect(options);
}

absl::StatusOr<std::unique_ptr<StagePort>>
InProcessWorkerNetwork::AcceptTransfers(const StageHost::Options&) {
  return std::make_unique<InProcessStagePort>(network_);
}

absl::StatusOr<StageCaller> InProcessWorkerNetwork::ConnectToStage(
    const std::string& address, absl::Time, const std::function<bool()>&) {
  // If the worker has left, each call ends with Unavailable.
  return [port = network_->FindStage(address)] {
    return LocalStagePort::Open(port);
  };
}

}  // namespace tributary
