#include "common/transport/health_endpoint.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/limits.h"
#include "common/transport/channel.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/resource_quota.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"

namespace tributary {
namespace {

using grpc::experimental::ExternalConnectionAcceptor;

// Probes open a few connections each, and send the name of a service. Fewer
// connections would let one prober keep out the others.
Limits HealthLimits() {
  Limits limits;
  limits.connections = 64;
  limits.connections_per_peer = 32;
  limits.streams_per_connection = 4;
  limits.message_bytes = 1 << 10;
  return limits;
}

// Memory for the calls of all probers. gRPC checks the size of a message only
// when all of it has arrived, and ends calls that would exceed this quota.
constexpr size_t kHealthBytes = 16 << 20;

}  // namespace

absl::StatusOr<std::unique_ptr<HealthEndpoint>> HealthEndpoint::Start(
    const std::string& address, Logger* log) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  ConfigureServer(HealthLimits(), &builder);
  grpc::ResourceQuota quota("health");
  quota.Resize(kHealthBytes);
  builder.SetResourceQuota(quota);
  std::unique_ptr<HealthEndpoint> endpoint(new HealthEndpoint());
  // gRPC does not start a server without a service besides its own.
  builder.RegisterCallbackGenericService(endpoint->others_.get());
  endpoint->acceptor_ =
      std::make_unique<ConnectionAcceptor>(HealthLimits(), log);
  const std::shared_ptr<ExternalConnectionAcceptor> to =
      builder.experimental().AddExternalConnectionAcceptor(
          grpc::ServerBuilder::experimental_type::ExternalConnectionType::
              FROM_FD,
          grpc::InsecureServerCredentials());
  const auto port = endpoint->acceptor_->ListenTcp(address, [to](int socket) {
    ExternalConnectionAcceptor::NewConnectionParameters connection;
    connection.fd = socket;
    to->HandleNewConnection(&connection);
  });
  if (!port.ok()) {
    return absl::Status(
        port.status().code(),
        absl::StrCat("cannot listen on ", address, " for health checks (",
                     port.status().message(),
                     "): the address is in use or not this machine's; choose "
                     "another with --health-listen HOST:PORT"));
  }
  endpoint->port_ = *port;
  endpoint->server_ = builder.BuildAndStart();
  if (endpoint->server_ == nullptr) {
    return absl::InternalError("gRPC cannot start a server for health checks");
  }
  endpoint->SetReady(false);
  endpoint->acceptor_->Start();
  log->Info("health checks at %s (plaintext)",
            absl::StrCat(address.substr(0, address.rfind(':')), ":", *port));
  return endpoint;
}

HealthEndpoint::HealthEndpoint()
    : others_(std::make_unique<grpc::CallbackGenericService>()) {}

HealthEndpoint::~HealthEndpoint() {
  acceptor_->Stop();
  if (server_ != nullptr) server_->Shutdown(absl::ToChronoTime(absl::Now()));
}

void HealthEndpoint::SetReady(bool ready) {
  server_->GetHealthCheckService()->SetServingStatus(kReadyService, ready);
}

}  // namespace tributary
