// The connections of simulated servers to other processes, and the services
// that they offer.
#ifndef TRIBUTARY_TESTS_SIMULATION_PROCESSES_SERVER_NETWORK_H_
#define TRIBUTARY_TESTS_SIMULATION_PROCESSES_SERVER_NETWORK_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "server/process/server_network.h"
#include "tests/simulation/processes/replicas.h"
#include "tests/simulation/processes/weights_streams.h"
#include "tests/simulation/world/link.h"
#include "tests/simulation/world/streams.h"
#include "tests/simulation/world/world.h"

namespace tributary::simulation {

// Returns the number N of the address "server-N". Returns 0 for an empty
// address, which stands for shard 0.
int ShardAt(absl::string_view address);

class SimulatedServices;

// Implements ServerNetwork with simulated links. ReadWeights fails at once if
// the server is not reachable at that moment.
class SimulatedServerNetwork final : public ServerNetwork {
 public:
  // All arguments must outlive this object.
  SimulatedServerNetwork(World* world, Process* process, int shard)
      : world_(world), process_(process), shard_(shard) {}

  std::unique_ptr<AttemptServices> MakeServices(
      Coordinator* coordinator, RunRecords* records,
      ReplicaStore* replicas) override;
  absl::StatusOr<std::unique_ptr<EnlistmentStream>> ConnectToCoordinator(
      absl::Duration timeout, const std::function<bool()>& stop) override;
  absl::Status ReadWeights(const std::string& address, int64_t version,
                           const ArenaLayout& layout, size_t chunks,
                           float* arena) override;

  // Returns the services of the attempt in progress; null between attempts.
  SimulatedServices* services() const { return services_; }
  bool enlisted() const { return enlisted_; }

 private:
  friend class SimulatedServices;

  World* const world_;
  Process* const process_;
  const int shard_;
  SimulatedServices* services_ = nullptr;
  bool enlisted_ = false;
};

class SimulatedServices final : public AttemptServices {
 public:
  SimulatedServices(SimulatedServerNetwork* network, Coordinator* coordinator,
                    ReplicaStore* memory);
  ~SimulatedServices() override;

  WeightsService* weights() override { return &weights_; }
  ReplicaNetwork* replicas() override { return &replicas_; }
  const LocalAddress& local_address() const override { return local_; }
  absl::StatusOr<std::string> Listen() override;
  void SetReady(bool) override {}
  void ShutDown(absl::Duration timeout) override;

  void Accept(Service service, const std::shared_ptr<Link>& link);

  // Return the objects that this server serves. coordinator() is null except on
  // shard 0, and engine() is null until the server has been configured.
  Coordinator* coordinator() const { return coordinator_; }
  UpdateEngine* engine() const { return weights_.engine(); }
  const ReplicaStore* memory() const { return memory_; }

 private:
  // Checks property P8 when an attempt ends.
  void CheckEnding();
  bool idle() const {
    return calls_.idle() && weights_.idle() && replicas_.idle();
  }

  SimulatedServerNetwork* const network_;
  World* const world_;
  Coordinator* const coordinator_;
  const ReplicaStore* const memory_;
  const LocalAddress local_;
  const std::shared_ptr<Life> scope_;
  ServedCalls calls_;
  WeightsStreams weights_;
  Replicas replicas_;
};

}  // namespace tributary::simulation

#endif  // TRIBUTARY_TESTS_SIMULATION_PROCESSES_SERVER_NETWORK_H_
