// Everything that a history has: time, chance, the network, the disk, the
// processes, and what is found out about them.
#ifndef TRIBUTARY_TESTS_SIMULATION_WORLD_WORLD_H_
#define TRIBUTARY_TESTS_SIMULATION_WORLD_WORLD_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/os/log.h"
#include "common/parameters/parameter_table.h"
#include "server/replication/replica_store.h"
#include "tests/simulation/world/disk.h"
#include "tests/simulation/world/event_loop.h"
#include "tests/simulation/world/ledger.h"
#include "tests/simulation/world/link.h"
#include "tests/simulation/world/network.h"
#include "tests/simulation/world/random.h"
#include "tests/simulation/world/reference.h"
#include "tests/simulation/world/scenario.h"

namespace tributary::simulation {

class World;

// What a call is for.
enum class Service { kMembership, kEnlistment, kExchange, kReplica };

// One process, which may end and be started again any number of times.
class Process {
 public:
  Process(World* world, std::string name, int number)
      : world_(world), name_(std::move(name)), number_(number) {}
  virtual ~Process() = default;

  void Start();
  // Ends it at once. Peers hear of it within `notice`.
  void Crash(absl::Duration notice);

  virtual void Accept(Service service, const std::shared_ptr<Link>& link) = 0;
  virtual bool coordinates() const { return false; }
  // Of servers.
  virtual const ReplicaStore* replicas() const { return nullptr; }
  // What it is doing, for a person who wonders why it hangs.
  virtual std::string State() const = 0;

  const std::string& name() const { return name_; }
  int number() const { return number_; }
  bool running() const { return life_ != nullptr && !life_->gone(); }
  const std::shared_ptr<Life>& life() const { return life_; }
  // Not there from the start.
  bool spare = false;
  // Who takes calls; null: nobody.
  const std::shared_ptr<Life>& listener() const { return listener_; }

 protected:
  virtual void OnStart() = 0;
  // Gives everything up. What has threads must find the life ended.
  virtual void OnCrash() = 0;
  // Ends the process by its own wish.
  void Exit(const absl::Status& status);
  // A part of this process's life.
  std::shared_ptr<Life> MakeScope(const std::string& what) const;
  // Ends the part, and its calls within `notice`.
  static void EndScope(const std::shared_ptr<Life>& scope,
                       absl::Duration notice);
  static void EndLinks(Life* life, absl::Duration notice);

  World* const world_;
  std::shared_ptr<Life> listener_;

 private:
  const std::string name_;
  const int number_;
  std::shared_ptr<Life> life_;
};

// Faults in the simulated programs themselves, for the checker's own tests.
struct Sabotage {
  bool wrong_gradient = false;   // One, of one worker.
  bool counted_twice = false;    // A ledger entry is written twice.
  bool lost_evaluation = false;  // Never said.
};

// A point of the protocol at which something happens to a process.
struct ArmedFailpoint {
  std::string point;
  int process = -1;
  int64_t count = 0;  // Times that the process passes by before.
  bool crash = true;  // Else the call fails.
};

class World {
 public:
  // Everything on the disk lies in `folder`, which holds nothing but an empty
  // folder `disk`.
  World(const Scenario& scenario, const ArenaLayout& layout,
        const std::string& folder, bool tracing, const Sabotage& sabotage);
  ~World();

  const Scenario scenario;
  const ArenaLayout layout;
  const Sabotage sabotage;
  EventLoop loop;
  Random random;
  Network network;
  FaultyFileSystem disk;
  DiskFault disk_fault;
  ArmedFailpoint failpoint;
  Ledger ledger;
  Logger* const log;

  std::vector<std::unique_ptr<Process>> processes;
  // By shard. That of shard 0 is whoever has the coordinator's address now.
  std::vector<Process*> servers;
  // What the job came to, from whoever coordinated it last.
  bool done = false;
  absl::StatusOr<ModelState> result = absl::UnknownError("there is none");
  int64_t result_attempt = 0;
  double evaluation_loss = 0;
  int64_t skipped = 0;
  int64_t restarts = 0;
  // Faults by kind; and of attempts those that began from memory.
  std::map<std::string, int64_t> injected;

  std::string run_folder() const { return folder_ + "/run"; }
  std::string disk_folder() const { return folder_ + "/disk"; }

  // What must not happen has; the first counts.
  void Violate(const std::string& what);
  const std::string& violation() const { return violation_; }

  // Calls `done` in `client`'s life, when there is a connection or none until
  // `deadline`. `target` is asked again each time.
  void Connect(const std::shared_ptr<Life>& client,
               std::function<Process*()> target, Service service,
               absl::Time deadline,
               std::function<void(absl::StatusOr<std::shared_ptr<Link>>)> done);
  // Ends connections between two processes, or with all others (-1).
  void CutLinks(int process, int other, absl::Duration notice);

  // A process has ended by its own wish.
  void OnExit(Process* process, const absl::Status& status);
  void RestartLater(Process* process);

  // From the code under test, about the process whose event is running.
  absl::Status HitFailpoint(const char* point);
  void RecordUpdate(int64_t attempt, int chunk, int64_t step,
                    int64_t sample_count);

  // Histories are run one at a time.
  static World* current;

 private:
  void TryToConnect(
      std::shared_ptr<Life> client, std::function<Process*()> target,
      Service service, absl::Time deadline,
      std::function<void(absl::StatusOr<std::shared_ptr<Link>>)> done);

  const std::string folder_;
  std::string violation_;
  std::vector<std::weak_ptr<Link>> links_;
};

}  // namespace tributary::simulation

#endif  // TRIBUTARY_TESTS_SIMULATION_WORLD_WORLD_H_
