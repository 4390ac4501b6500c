// The gRPC server of a process. It listens on the network and, for processes of
// the same host, on a Unix socket; authenticates peers; and serves health
// checks.
#ifndef TRIBUTARY_COMMON_LISTENER_LISTENER_H_
#define TRIBUTARY_COMMON_LISTENER_LISTENER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/limits.h"
#include "common/os/logger.h"
#include "common/transport/connection_acceptor.h"
#include "common/transport/security.h"
#include "proto/rendezvous.pb.h"

namespace grpc {
class Server;
class Service;
}  // namespace grpc

namespace tributary {

// Returns the address of a Unix socket with a unique name, for processes on
// this host.
LocalAddress MakeLocalAddress();

// A running gRPC server with its listening sockets. Not thread-safe, except for
// SetReady.
class Listener {
 public:
  struct Options {
    // host:port to listen on; port 0 selects a free port.
    std::string network;
    // host or host:port at which other processes reach this one. If empty,
    // `network` is used.
    std::string advertise;
    // Address of the Unix socket, as unix-abstract:NAME. With TLS or a token,
    // only processes of the same user or of root may connect to it. The kernel
    // authenticates these processes, so they need neither a certificate nor a
    // token.
    std::string unix_socket;
    Security security;
    Limits limits;
    // The log, which must outlive the listener.
    Logger* log = nullptr;
  };

  // Starts a server that accepts calls and reports its health as NOT_SERVING.
  // `services` must outlive the listener. Returns Unavailable if an address
  // cannot be bound, InvalidArgument if it is malformed, and Internal if gRPC
  // fails.
  static absl::StatusOr<std::unique_ptr<Listener>> Start(
      const Options& options, const std::vector<grpc::Service*>& services);
  ~Listener();

  int port() const { return port_; }
  // network() returns the host:port on which the server listens; address()
  // returns the host:port at which other processes reach it.
  const std::string& network() const { return network_; }
  const std::string& address() const { return address_; }

  // Sets the status in grpc.health.v1: SERVING or NOT_SERVING. Thread-safe.
  void SetReady(bool ready);

  // Stops accepting connections and waits for calls to end. Cancels calls that
  // are still open after `timeout`, and soon ends the connections of peers that
  // do not read.
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

#endif  // TRIBUTARY_COMMON_LISTENER_LISTENER_H_
