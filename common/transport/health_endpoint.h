// Answers health checks (grpc.health.v1) on a port of its own, for probes that
// have neither a certificate nor the job's token.
#ifndef TRIBUTARY_COMMON_TRANSPORT_HEALTH_ENDPOINT_H_
#define TRIBUTARY_COMMON_TRANSPORT_HEALTH_ENDPOINT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/os/logger.h"
#include "common/transport/connection_acceptor.h"

namespace grpc {
class CallbackGenericService;
class Server;
}  // namespace grpc

namespace tributary {

// The name of the health service that reports whether the process takes part in
// the job. The service with the empty name reports SERVING as long as the
// process answers. A check of any other name returns NOT_FOUND.
inline constexpr char kReadyService[] = "tributary.ready";

// A plaintext gRPC server with no service but grpc.health.v1.Health (Check and
// Watch). Accepts few connections and only tiny messages. Thread-safe.
class HealthEndpoint {
 public:
  // Listens on `address`, host:port; port 0 selects a free port. kReadyService
  // is NOT_SERVING at first. `log` must outlive the result. Returns Unavailable
  // if the address cannot be bound, InvalidArgument if it is malformed, and
  // Internal if gRPC fails.
  static absl::StatusOr<std::unique_ptr<HealthEndpoint>> Start(
      const std::string& address, Logger* log);
  // Cancels all open calls.
  ~HealthEndpoint();
  HealthEndpoint(const HealthEndpoint&) = delete;
  HealthEndpoint& operator=(const HealthEndpoint&) = delete;

  int port() const { return port_; }

  // Sets whether kReadyService is SERVING.
  void SetReady(bool ready);

 private:
  HealthEndpoint();

  int port_ = 0;
  // Refuses the calls of all methods except those of the health service.
  const std::unique_ptr<grpc::CallbackGenericService> others_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<ConnectionAcceptor> acceptor_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TRANSPORT_HEALTH_ENDPOINT_H_
