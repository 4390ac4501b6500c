#include "common/listener/listener.h"

#include <unistd.h>

#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/base/thread.h"
#include "common/os/shared_memory.h"
#include "common/transport/authorizer.h"
#include "common/transport/channel.h"
#include "common/transport/credentials.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"

namespace tributary {
namespace {

using grpc::experimental::ExternalConnectionAcceptor;

// Time in which gRPC writes the last messages of calls that are cancelled. A
// peer that runs reads them within milliseconds.
constexpr absl::Duration kCancelTime = absl::Milliseconds(500);

// Returns a handler that passes accepted sockets to gRPC. Shared by the sockets
// of one kind.
ConnectionAcceptor::Handler HandTo(
    std::unique_ptr<ExternalConnectionAcceptor> acceptor) {
  return [to = std::shared_ptr<ExternalConnectionAcceptor>(
              std::move(acceptor))](int socket) {
    ExternalConnectionAcceptor::NewConnectionParameters connection;
    connection.fd = socket;
    to->HandleNewConnection(&connection);
  };
}

ConnectionAcceptor::Handler AddDoor(const Security& security,
                                    grpc::ServerBuilder* builder) {
  auto authorizer = std::make_shared<const Authorizer>(security);
  return HandTo(builder->experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      MakeServerCredentials(security, std::move(authorizer))));
}

// Returns the part of host:port before the last colon.
std::string HostOf(const std::string& address) {
  return address.substr(0, address.rfind(':'));
}

}  // namespace

LocalAddress MakeLocalAddress() {
  LocalAddress local;
  local.set_host(HostIdentity());
  std::random_device random;
  local.set_address(absl::StrCat("unix-abstract:tributary-", getpid(), "-",
                                 absl::Hex(random(), absl::kZeroPad8),
                                 absl::Hex(random(), absl::kZeroPad8)));
  return local;
}

absl::StatusOr<std::unique_ptr<Listener>> Listener::Start(
    const Options& options, const std::vector<grpc::Service*>& services) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  ConfigureServer(options.limits, &builder);
  for (grpc::Service* service : services) builder.RegisterService(service);
  std::unique_ptr<Listener> listener(new Listener());
  listener->acceptor_ =
      std::make_unique<ConnectionAcceptor>(options.limits, options.log);
  const auto port = listener->acceptor_->ListenTcp(
      options.network, AddDoor(options.security, &builder));
  if (!port.ok()) {
    return absl::Status(
        port.status().code(),
        absl::StrCat("cannot listen on ", options.network, " (",
                     port.status().message(),
                     "): the address is in use or not this machine's; choose "
                     "another with --listen HOST:PORT (port 0: any free one)"));
  }
  listener->port_ = *port;
  listener->network_ = absl::StrCat(HostOf(options.network), ":", *port);
  if (options.advertise.empty()) {
    listener->address_ = listener->network_;
  } else if (options.advertise.find(':') == std::string::npos) {
    listener->address_ = absl::StrCat(options.advertise, ":", *port);
  } else {
    listener->address_ = options.advertise;
  }
  TRIBUTARY_RETURN_IF_ERROR(listener->acceptor_->ListenUnix(
      options.unix_socket, /*own_user_only=*/options.security.any(),
      AddDoor(Security(), &builder)));
  listener->server_ = builder.BuildAndStart();
  if (listener->server_ == nullptr) {
    return absl::InternalError("gRPC cannot start a server");
  }
  listener->SetReady(false);
  options.log->Info("limits: %s; at most %d connections here",
                    DescribeLimits(options.limits),
                    listener->acceptor_->most_connections());
  listener->acceptor_->Start();
  return listener;
}

Listener::~Listener() { ShutDown(absl::ZeroDuration()); }

void Listener::SetReady(bool ready) {
  server_->GetHealthCheckService()->SetServingStatus(ready);
}

void Listener::ShutDown(absl::Duration timeout) {
  if (acceptor_ != nullptr) acceptor_->Stop();
  if (server_ == nullptr) return;
  // After the timeout, gRPC cancels the calls, but then waits until their last
  // messages are written: to a peer that is suspended, until its keepalive
  // timeout.
  absl::Notification done;
  Thread cut([&] {
    if (done.WaitForNotificationWithTimeout(timeout + kCancelTime)) return;
    acceptor_->ShutDownConnections();
  });
  server_->Shutdown(absl::ToChronoTime(absl::Now() + timeout));
  done.Notify();
  cut.Join();
}

}  // namespace tributary
