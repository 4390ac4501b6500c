// A server's end of an InProcessNetwork.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_IN_PROCESS_IN_PROCESS_SERVER_NETWORK_H_
#define TRIBUTARY_DEPLOY_LAUNCH_IN_PROCESS_IN_PROCESS_SERVER_NETWORK_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/os/logger.h"
#include "common/parameters/arena_layout.h"
#include "deploy/launch/in_process/in_process_network.h"
#include "server/process/server_network.h"

namespace tributary {

class InProcessServerNetwork final : public ServerNetwork {
 public:
  // See InProcessNetwork::MakeServerNetwork.
  InProcessServerNetwork(InProcessNetwork* network, int shard, Logger* log,
                         std::function<void(bool)> on_ready)
      : network_(network),
        shard_(shard),
        log_(log),
        on_ready_(std::move(on_ready)) {}

  std::unique_ptr<AttemptServices> MakeServices(
      Coordinator* coordinator, RunRecords* records,
      ReplicaStore* replicas) override;
  absl::StatusOr<std::unique_ptr<EnlistmentStream>> ConnectToCoordinator(
      absl::Duration timeout, const std::function<bool()>& stop) override;
  absl::Status ReadWeights(const std::string& address, int64_t version,
                           const ArenaLayout& layout, size_t chunks,
                           float* arena) override;

 private:
  InProcessNetwork* const network_;
  const int shard_;
  Logger* const log_;
  const std::function<void(bool)> on_ready_;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_IN_PROCESS_IN_PROCESS_SERVER_NETWORK_H_
