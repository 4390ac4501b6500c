// The parts that every simulated server has in an attempt: the real
// LocalServer, streams for workers, and its view of the disk.
#ifndef TRIBUTARY_TESTS_SIMULATION_PROCESSES_SERVER_ATTEMPT_H_
#define TRIBUTARY_TESTS_SIMULATION_PROCESSES_SERVER_ATTEMPT_H_

#include <functional>
#include <memory>
#include <string>

#include "server/process/local_server.h"
#include "tests/simulation/processes/replicas.h"
#include "tests/simulation/processes/weights_streams.h"
#include "tests/simulation/world/disk.h"
#include "tests/simulation/world/executor.h"
#include "tests/simulation/world/world.h"

namespace tributary::simulation {

struct ServerAttempt {
  ServerAttempt(World* world, int shard, std::shared_ptr<Life> part,
                ReplicaStore* memory,
                std::function<void(const ServerReport&)> report)
      : scope(std::move(part)),
        disk(&world->loop, &world->disk, &world->disk_fault, scope,
             [](const std::string&) {}),
        streams(world, shard, scope),
        replicas(world, shard, scope, memory),
        local(shard,
              {MakeExecutor(world, scope, /*threads=*/1),
               MakeExecutor(world, scope, world->scenario.pool_threads)},
              &disk, &streams, std::move(report)) {
    local.UseReplicas(memory, &replicas);
  }
  // If the process has crashed, the scope has ended before this; otherwise it
  // ends after this.
  ~ServerAttempt() { streams.EndAll(); }

  static std::unique_ptr<Executor> MakeExecutor(World* world,
                                                std::shared_ptr<Life> scope,
                                                int threads) {
    return std::make_unique<SimulatedExecutor>(
        &world->loop, &world->random, std::move(scope), threads,
        world->random.Chance(0.2) ? absl::Milliseconds(50)
                                  : absl::Milliseconds(1));
  }

  const std::shared_ptr<Life> scope;
  ProcessDisk disk;
  WeightsStreams streams;
  Replicas replicas;
  LocalServer local;
};

}  // namespace tributary::simulation

#endif  // TRIBUTARY_TESTS_SIMULATION_PROCESSES_SERVER_ATTEMPT_H_
