// A simulated server's part in keeping the others' state: what ReplicaService
// is over gRPC.
#ifndef TRIBUTARY_TESTS_SIMULATION_PROCESSES_REPLICAS_H_
#define TRIBUTARY_TESTS_SIMULATION_PROCESSES_REPLICAS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/replication/replica_network.h"
#include "server/replication/replica_store.h"
#include "tests/simulation/world/link.h"
#include "tests/simulation/world/world.h"

namespace tributary::simulation {

class Replicas final : public ReplicaNetwork {
 public:
  // `scope` is what the streams belong to. `memory` must outlive this object.
  Replicas(World* world, int shard, std::shared_ptr<Life> scope,
           ReplicaStore* memory);
  ~Replicas() override;

  // Another server's stream.
  void Accept(const std::shared_ptr<Link>& link);

  void Serve(int64_t attempt) override { attempt_ = attempt; }
  void ServeWorkers(int64_t) override {}
  std::unique_ptr<ReplicaStream> Open(
      const std::string& address, const JournalHello& hello,
      std::function<void(const absl::Status&)> lost) override;
  // In no time, unless the network is in the way.
  absl::Status Fetch(const std::string& address,
                     const ReadJournalRequest& request,
                     Snapshot* snapshot) override;

 private:
  class Incoming;
  class Outgoing;

  World* const world_;
  const int shard_;
  const std::shared_ptr<Life> scope_;
  ReplicaStore* const memory_;
  int64_t attempt_ = 0;
  std::vector<std::unique_ptr<Incoming>> incoming_;
};

}  // namespace tributary::simulation

#endif  // TRIBUTARY_TESTS_SIMULATION_PROCESSES_REPLICAS_H_
