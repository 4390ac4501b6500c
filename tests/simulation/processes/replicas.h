// Replication between simulated servers, in place of ReplicaService.
#ifndef TRIBUTARY_TESTS_SIMULATION_PROCESSES_REPLICAS_H_
#define TRIBUTARY_TESTS_SIMULATION_PROCESSES_REPLICAS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/base/limits.h"
#include "server/replication/replica_network.h"
#include "server/replication/replica_read_session.h"
#include "server/replication/replica_store.h"
#include "tests/simulation/world/link.h"
#include "tests/simulation/world/streams.h"
#include "tests/simulation/world/world.h"

namespace tributary::simulation {

class Replicas final : public ReplicaNetwork {
 public:
  // The streams end with `scope`. `memory` must outlive this object.
  Replicas(World* world, int shard, std::shared_ptr<Life> scope,
           ReplicaStore* memory);

  // Accepts the stream of another server.
  void Accept(const std::shared_ptr<Link>& link) { Keep(attempt_, link); }
  // All-reduce only: accepts a worker's stream of state to save.
  void AcceptSave(const std::shared_ptr<Link>& link) {
    Keep(workers_attempt_, link);
  }
  // Accepts another server's request for a replica.
  void AcceptRead(const std::shared_ptr<Link>& link) {
    Read(memory_, reads_, link);
  }
  // All-reduce only: accepts a worker's request for saved state.
  void AcceptWorkersRead(const std::shared_ptr<Link>& link) {
    Read(workers_attempt_ == 0 ? nullptr : memory_, worker_reads_, link);
  }
  bool idle() const { return calls_.idle(); }
  // Ends all streams.
  void EndAll() { calls_.EndAll(); }

  void Serve(int64_t attempt) override { attempt_ = attempt; }
  void ServeWorkers(int64_t attempt) override { workers_attempt_ = attempt; }
  std::unique_ptr<ReplicaStream> Open(
      const std::string& address, const JournalHello& hello,
      std::function<void(const absl::Status&)> lost) override;
  // Fails at once if the server is not reachable now.
  absl::Status Fetch(const std::string& address,
                     const ReadJournalRequest& request,
                     Snapshot* snapshot) override;

 private:
  void Keep(int64_t attempt, const std::shared_ptr<Link>& link);
  void Read(const ReplicaStore* memory,
            const std::shared_ptr<ReplicaReads>& reads,
            const std::shared_ptr<Link>& link);

  World* const world_;
  const int shard_;
  const std::shared_ptr<Life> scope_;
  ReplicaStore* const memory_;
  int64_t attempt_ = 0;
  int64_t workers_attempt_ = 0;
  const std::shared_ptr<ReplicaReads> reads_ =
      std::make_shared<ReplicaReads>(kMostReadsByServers);
  const std::shared_ptr<ReplicaReads> worker_reads_ =
      std::make_shared<ReplicaReads>(kDefaultLimits.workers);
  ServedCalls calls_;
};

}  // namespace tributary::simulation

#endif  // TRIBUTARY_TESTS_SIMULATION_PROCESSES_REPLICAS_H_
