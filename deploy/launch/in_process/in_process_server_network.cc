#include "deploy/launch/in_process/in_process_server_network.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/monotonic_clock.h"
#include "common/os/shared_memory.h"
#include "common/stream/replica_stream.h"
#include "deploy/launch/in_process/server_port.h"
#include "server/replication/replica_network.h"
#include "server/service/weights_reader.h"

namespace tributary {
namespace {

class InProcessServices final : public AttemptServices, private ReplicaNetwork {
 public:
  InProcessServices(InProcessNetwork* network, int shard,
                    std::shared_ptr<ServerPort> port,
                    std::function<void(bool)> on_ready)
      : network_(network),
        address_(absl::StrCat("server-", shard)),
        port_(std::move(port)),
        on_ready_(std::move(on_ready)) {
    local_.set_host(HostIdentity());
    local_.set_address(address_);
  }
  ~InProcessServices() override { ShutDown(absl::ZeroDuration()); }

  WeightsService* weights() override { return port_->weights(); }
  ReplicaNetwork* replicas() override { return this; }
  const LocalAddress& local_address() const override { return local_; }

  absl::StatusOr<std::string> Listen() override {
    listening_ = true;
    network_->Publish(address_, port_);
    return address_;
  }
  void SetReady(bool ready) override {
    if (on_ready_) on_ready_(ready);
  }
  void ShutDown(absl::Duration timeout) override {
    if (!std::exchange(listening_, false)) return;
    SetReady(false);
    network_->Withdraw(address_);
    port_->ShutDown(timeout);
  }

 private:
  // The methods of ReplicaNetwork.
  void Serve(int64_t attempt) override { port_->replicas()->Serve(attempt); }
  void ServeWorkers(int64_t attempt) override {
    port_->replicas()->ServeWorkers(attempt);
  }
  std::unique_ptr<ReplicaStream> Open(
      const std::string& address, const JournalHello& hello,
      std::function<void(const absl::Status&)> lost) override {
    return StartReplicaStream(network_->FindServer(address)->Replicate(),
                              address, hello, std::move(lost));
  }
  absl::Status Fetch(const std::string& address,
                     const ReadJournalRequest& request,
                     const ReplicaTarget& to) override {
    return network_->FindServer(address)->ReadJournal(request, to);
  }

  InProcessNetwork* const network_;
  const std::string address_;
  LocalAddress local_;
  const std::shared_ptr<ServerPort> port_;
  const std::function<void(bool)> on_ready_;
  bool listening_ = false;
};

}  // namespace

std::unique_ptr<AttemptServices> InProcessServerNetwork::MakeServices(
    Coordinator* coordinator, RunRecords* records, ReplicaStore* replicas) {
  return std::make_unique<InProcessServices>(
      network_, shard_,
      std::make_shared<ServerPort>(shard_, coordinator, records, replicas,
                                   network_->executor(), log_),
      on_ready_);
}

absl::StatusOr<std::unique_ptr<EnlistmentStream>>
InProcessServerNetwork::ConnectToCoordinator(
    absl::Duration timeout, const std::function<bool()>& stop) {
  const std::shared_ptr<ServerPort> port = network_->AwaitServer(
      InProcessNetwork::kCoordinator, MonotonicNow() + timeout, stop);
  if (port != nullptr) return port->Enlistment();
  if (stop()) return absl::CancelledError("stopped by request");
  return absl::UnavailableError("server 0 does not accept calls");
}

absl::Status InProcessServerNetwork::ReadWeights(const std::string& address,
                                                 int64_t version,
                                                 const ArenaLayout& layout,
                                                 size_t chunks, float* arena) {
  return ReceiveWeights(network_->FindServer(address)->ReadWeights(), address,
                        version, layout, chunks, arena);
}

}  // namespace tributary
