// A server as a simulated process: RunServer, on the disk that all servers
// share.
#ifndef TRIBUTARY_TESTS_SIMULATION_PROCESSES_SERVER_PROCESS_H_
#define TRIBUTARY_TESTS_SIMULATION_PROCESSES_SERVER_PROCESS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "common/base/shutdown.h"
#include "server/coordinator/beginning.h"
#include "server/process/server_options.h"
#include "tests/simulation/processes/server_network.h"
#include "tests/simulation/world/disk.h"
#include "tests/simulation/world/world.h"

namespace tributary::simulation {

class ServerProcess final : public Process {
 public:
  ServerProcess(World* world, std::string name, int number, int shard)
      : Process(world, std::move(name), number), shard_(shard) {}

  void Accept(Service service, const std::shared_ptr<Link>& link) override;
  bool coordinates() const override { return shard_ == 0; }
  const ReplicaStore* replicas() const override;
  std::string State() const override;

  // Simulates SIGTERM.
  void Drain();
  // Crashes the process after `calls` more calls to the disk.
  void CrashAtDiskCall(int64_t calls);
  // Returns the services of the attempt in progress; null if there is none.
  SimulatedServices* services() const {
    return network_ == nullptr ? nullptr : network_->services();
  }

 private:
  void OnStart() override;
  void OnCrash() override;

  ServerOptions Options();
  // Records where an attempt begins.
  void OnBegin(int64_t attempt, const Beginning& beginning);
  // Called for every new name on the disk. Records attempts, checkpoints and
  // the final model.
  void OnRenamed(const std::string& path);
  void OnCheckpoint(const std::string& path);
  void OnResult();
  void OnOver(const absl::Status& status);

  const int shard_;
  int64_t attempt_ = 0;  // Shard 0 only: the newest one that it has begun.
  std::unique_ptr<Shutdown> shutdown_;
  std::unique_ptr<ProcessDisk> disk_;
  std::unique_ptr<SimulatedServerNetwork> network_;
};

}  // namespace tributary::simulation

#endif  // TRIBUTARY_TESTS_SIMULATION_PROCESSES_SERVER_PROCESS_H_
