// A server's gRPC side: its two doors (network and, for processes of its host,
// a Unix socket), who may come in, and the health service.
#ifndef TRIBUTARY_SERVER_SERVICE_LISTENER_H_
#define TRIBUTARY_SERVER_SERVICE_LISTENER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/limits.h"
#include "common/os/log.h"
#include "common/transport/connection_acceptor.h"
#include "common/transport/security.h"
#include "proto/rendezvous.pb.h"

namespace grpc {
class Server;
class Service;
}  // namespace grpc

namespace tributary {

// A Unix socket's name that nobody else has, for workers on this host.
LocalAddress MakeLocalAddress();

// For one thread, but for SetReady.
class Listener {
 public:
  struct Options {
    // host:port; port 0: any free one.
    std::string network;
    // host or host:port where others reach it; empty: as `network`.
    std::string advertise;
    // unix-abstract:NAME. With TLS or a token only processes of this user come
    // in: the kernel says who they are, so they need neither.
    std::string unix_socket;
    Security security;
    Limits limits;
    // Must outlive the listener.
    Logger* log = nullptr;
  };

  // Accepts calls from now on, with health NOT_SERVING. `services` must outlive
  // the listener. Unavailable if the address cannot be had.
  static absl::StatusOr<std::unique_ptr<Listener>> Start(
      const Options& options, const std::vector<grpc::Service*>& services);
  ~Listener();

  int port() const { return port_; }
  // host:port that it listens on, and where others reach it.
  const std::string& network() const { return network_; }
  const std::string& address() const { return address_; }

  // What grpc.health.v1 says: SERVING, or NOT_SERVING. Thread-safe.
  void SetReady(bool ready);

  // Accepts nobody any more, and waits for calls to end; cuts them after
  // `timeout`.
  void ShutDown(absl::Duration timeout);

 private:
  Listener() = default;

  int port_ = 0;
  std::string network_;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<ConnectionAcceptor> acceptor_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_SERVICE_LISTENER_H_
