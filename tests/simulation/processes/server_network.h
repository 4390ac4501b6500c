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
#include "server/replication/replica_network.h"
#include "server/replication/replica_sessions.h"
#include "server/replication/replica_store.h"
#include "server/service/weights_sessions.h"
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

// The services of one attempt. Makes the same sessions as the gRPC services.
// A read of another server's replicas fails at once if that server is not
// reachable at that moment.
class SimulatedServices final : public AttemptServices, private ReplicaNetwork {
 public:
  SimulatedServices(SimulatedServerNetwork* network, Coordinator* coordinator,
                    ReplicaStore* memory);
  ~SimulatedServices() override;

  WeightsService* weights() override { return &weights_; }
  ReplicaNetwork* replicas() override { return this; }
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
  // Serves a call with the session that make(stream) returns.
  template <typename In, typename Out, typename MakeSession>
  void AcceptCall(const std::shared_ptr<Link>& link, const MakeSession& make);

  // The methods of ReplicaNetwork.
  void Serve(int64_t attempt) override { replicas_.Serve(attempt); }
  void ServeWorkers(int64_t attempt) override {
    replicas_.ServeWorkers(attempt);
  }
  std::unique_ptr<ReplicaStream> Open(
      const std::string& address, const JournalHello& hello,
      std::function<void(const absl::Status&)> lost) override;
  absl::Status Fetch(const std::string& address,
                     const ReadJournalRequest& request,
                     const ReplicaTarget& to) override;

  SimulatedServerNetwork* const network_;
  World* const world_;
  Coordinator* const coordinator_;
  const ReplicaStore* const memory_;
  const LocalAddress local_;
  const std::shared_ptr<Life> scope_;
  WeightsSessions weights_;
  ReplicaSessions replicas_;
  ServedCalls calls_;
};

}  // namespace tributary::simulation

#endif  // TRIBUTARY_TESTS_SIMULATION_PROCESSES_SERVER_NETWORK_H_
