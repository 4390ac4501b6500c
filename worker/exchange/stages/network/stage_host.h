// The gRPC server of a worker of a pipeline.
#ifndef TRIBUTARY_WORKER_EXCHANGE_STAGES_NETWORK_STAGE_HOST_H_
#define TRIBUTARY_WORKER_EXCHANGE_STAGES_NETWORK_STAGE_HOST_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/limits.h"
#include "common/listener/listener.h"
#include "common/os/logger.h"
#include "common/transport/security.h"
#include "proto/rendezvous.pb.h"
#include "worker/exchange/stages/stage_port.h"
#include "worker/exchange/stages/stage_receiver.h"

namespace tributary {

// Serves StageExchange to the workers of the other stages, with the credentials
// of the job: with TLS and a token on the network, and to processes of the same
// user on a Unix socket. Thread-safe. Only Start and the destructor block.
class StageHost final : public StagePort {
 public:
  struct Options {
    // host:port to listen on; port 0 selects a free port.
    std::string listen;
    // host or host:port at which other workers reach this one. If empty,
    // `listen` is used.
    std::string advertise;
    // The worker's credentials.
    Security security;
    Limits limits;
    // Must outlive the host.
    Logger* log = nullptr;
  };

  // Starts to listen. Returns the errors of Listener::Start.
  static absl::StatusOr<std::unique_ptr<StageHost>> Start(
      const Options& options);
  ~StageHost() override;
  StageHost(const StageHost&) = delete;
  StageHost& operator=(const StageHost&) = delete;

  void Serve(const StageReceiver::Worker& worker) override;
  const std::string& address() const override { return listener_->address(); }
  const LocalAddress& local_address() const override { return local_; }

 private:
  class Service;

  StageHost();

  const LocalAddress local_;
  const std::unique_ptr<Service> service_;
  std::unique_ptr<Listener> listener_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_STAGES_NETWORK_STAGE_HOST_H_
