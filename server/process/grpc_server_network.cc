#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/listener/listener.h"
#include "common/transport/channel.h"
#include "common/transport/grpc_client_stream.h"
#include "grpcpp/grpcpp.h"
#include "server/process/server_network.h"
#include "server/process/server_options.h"
#include "server/replication/replica_service.h"
#include "server/service/coordinator_service.h"
#include "server/service/parameter_server_service.h"
#include "server/service/weights_reader.h"

namespace tributary {
namespace {

constexpr absl::Duration kReadWeightsTimeout = absl::Minutes(10);

class GrpcServices final : public AttemptServices {
 public:
  // Listens on `*network`, and replaces it with the address that was bound. All
  // arguments must outlive this object.
  GrpcServices(const ServerOptions& options, Coordinator* coordinator,
               RunRecords* records, ReplicaStore* replicas,
               std::string* network)
      : options_(options),
        network_(network),
        weights_(options.shard, options.log),
        replicas_({options.shard, options.coordinator, options.security},
                  replicas) {
    if (coordinator != nullptr) coordinator_.emplace(coordinator, records);
  }
  ~GrpcServices() override { ShutDown(absl::ZeroDuration()); }

  WeightsService* weights() override { return weights_.sessions(); }
  ReplicaNetwork* replicas() override { return &replicas_; }
  const LocalAddress& local_address() const override { return local_; }

  absl::StatusOr<std::string> Listen() override {
    Listener::Options listen = ListenerOptions(options_, local_);
    listen.network = *network_;
    std::vector<grpc::Service*> services = {&weights_, &replicas_};
    if (coordinator_.has_value()) services.push_back(&*coordinator_);
    TRIBUTARY_ASSIGN_OR_RETURN(listener_, Listener::Start(listen, services));
    *network_ = listener_->network();
    return listener_->address();
  }
  void SetReady(bool ready) override {
    listener_->SetReady(ready);
    if (options_.on_ready) options_.on_ready(ready);
  }
  void ShutDown(absl::Duration timeout) override {
    if (listener_ == nullptr) return;
    SetReady(false);
    listener_->ShutDown(timeout);
    if (coordinator_.has_value()) coordinator_->AwaitIdle();
    weights_.AwaitIdle();
    replicas_.AwaitIdle();
    listener_.reset();
  }

 private:
  const ServerOptions& options_;
  std::string* const network_;
  const LocalAddress local_ = MakeLocalAddress();
  ParameterServerService weights_;
  ReplicaService replicas_;
  std::optional<CoordinatorService> coordinator_;
  std::unique_ptr<Listener> listener_;
};

class GrpcServerNetwork final : public ServerNetwork {
 public:
  explicit GrpcServerNetwork(const ServerOptions& options)
      : options_(options), listen_(options.listen) {}

  std::unique_ptr<AttemptServices> MakeServices(
      Coordinator* coordinator, RunRecords* records,
      ReplicaStore* replicas) override {
    // Other servers tell the coordinator their address in each attempt.
    if (coordinator == nullptr) listen_ = options_.listen;
    return std::make_unique<GrpcServices>(options_, coordinator, records,
                                          replicas, &listen_);
  }

  absl::StatusOr<std::unique_ptr<EnlistmentStream>> ConnectToCoordinator(
      absl::Duration timeout, const std::function<bool()>& stop) override {
    TRIBUTARY_ASSIGN_OR_RETURN(
        std::shared_ptr<grpc::Channel> channel,
        tributary::ConnectToCoordinator(options_.coordinator, options_.security,
                                        timeout, stop));
    return std::make_unique<GrpcClientStream<ServerOrder, ServerReport>>(
        std::move(channel), "/tributary.Rendezvous/Enlistment");
  }

  absl::Status ReadWeights(const std::string& address, int64_t version,
                           const ArenaLayout& layout, size_t chunks,
                           float* arena) override;

 private:
  const ServerOptions& options_;
  // Address to listen on. Later attempts reuse the port of the coordinator's
  // first one, which peers know.
  std::string listen_;
};

absl::Status GrpcServerNetwork::ReadWeights(const std::string& address,
                                            int64_t version,
                                            const ArenaLayout& layout,
                                            size_t chunks, float* arena) {
  return ReceiveWeights(
      std::make_unique<GrpcClientStream<ServerMessage, ReadWeightsRequest>>(
          CreateChannel(address, options_.security),
          "/tributary.ParameterServer/ReadWeights", kReadWeightsTimeout),
      address, version, layout, chunks, arena);
}

}  // namespace

std::unique_ptr<ServerNetwork> MakeGrpcServerNetwork(
    const ServerOptions& options) {
  return std::make_unique<GrpcServerNetwork>(options);
}

}  // namespace tributary
