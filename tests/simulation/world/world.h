// The state of a simulated history: time, randomness, the network, the disk,
// the processes, and the findings about them.
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
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/os/logger.h"
#include "common/parameters/arena_layout.h"
#include "server/replication/replica_store.h"
#include "tests/simulation/jobs/random.h"
#include "tests/simulation/jobs/reference.h"
#include "tests/simulation/jobs/scenario.h"
#include "tests/simulation/world/disk.h"
#include "tests/simulation/world/event_loop.h"
#include "tests/simulation/world/fibers.h"
#include "tests/simulation/world/ledger.h"
#include "tests/simulation/world/link.h"
#include "tests/simulation/world/network.h"

namespace tributary::simulation {

class World;

// The RPC of a call.
enum class Service {
  kMembership,
  kEnlistment,
  kExchange,
  kReadWeights,
  kReplica,
  kReadReplica,
  // All-reduce only: the workers' state on server 0, and the connections
  // between workers.
  kSaveState,
  kReadState,
  kMember,
  // Pipelines only: the transfers between stages.
  kTransfer,
};

// A simulated process, which may end and be restarted any number of times.
class Process {
 public:
  Process(World* world, std::string name, int number)
      : world_(world), name_(std::move(name)), number_(number) {}
  virtual ~Process() = default;

  void Start();
  // Ends the process at once. Peers notice within `notice`.
  void Crash(absl::Duration notice);

  virtual void Accept(Service service, const std::shared_ptr<Link>& link) = 0;
  virtual bool coordinates() const { return false; }
  // Returns the replicas in the memory of a server; null for workers.
  virtual const ReplicaStore* replicas() const { return nullptr; }
  // Describes what the process is doing, to debug a history that hangs.
  virtual std::string State() const = 0;

  const std::string& name() const { return name_; }
  int number() const { return number_; }
  bool running() const { return life_ != nullptr && !life_->gone(); }
  const std::shared_ptr<Life>& life() const { return life_; }
  // True for a process that is not started with the others.
  bool spare = false;
  // Returns the scope that accepts calls; null if the process accepts none.
  const std::shared_ptr<Life>& listener() const { return listener_; }
  void Listen(std::shared_ptr<Life> scope) { listener_ = std::move(scope); }
  // Returns a new scope within this process.
  std::shared_ptr<Life> MakeScope(const std::string& what) const;
  // Ends the scope, and its calls within `notice`.
  static void EndScope(const std::shared_ptr<Life>& scope,
                       absl::Duration notice);

 protected:
  virtual void OnStart() = 0;
  // Releases all state. Called after the scope of the process has ended, which
  // objects with threads require.
  virtual void OnCrash() = 0;
  // Ends the process with this status.
  void Exit(const absl::Status& status);

  World* const world_;

 private:
  static void EndLinks(Life* life, absl::Duration notice);

  std::shared_ptr<Life> listener_;
  const std::string name_;
  const int number_;
  std::shared_ptr<Life> life_;
};

// Faults in the simulated programs themselves, to test the checker.
struct Sabotage {
  bool wrong_gradient = false;   // One worker sends a wrong gradient.
  bool counted_twice = false;    // One ledger entry is written twice.
  bool lost_evaluation = false;  // One evaluation is not reported.
};

// A failpoint that has been set for one process.
struct ArmedFailpoint {
  std::string point;
  int process = -1;
  int64_t count = 0;  // Number of passes before it acts.
  bool crash = true;  // If false, the call fails.
};

class World {
 public:
  // The simulated disk is in `folder`, which must contain only an empty folder
  // `disk`.
  World(const Scenario& scenario, const ArenaLayout& layout,
        const std::string& folder, bool tracing, const Sabotage& sabotage);
  ~World();

  const Scenario scenario;
  const ArenaLayout layout;
  const Sabotage sabotage;
  EventLoop loop;
  Random random;
  Fibers fibers;
  Network network;
  FaultyFileSystem disk;
  DiskFault disk_fault;
  ArmedFailpoint failpoint;
  Ledger ledger;
  Logger* const log;

  std::vector<std::unique_ptr<Process>> processes;
  // The servers, indexed by shard. For shard 0, the process that currently has
  // the address of the coordinator.
  std::vector<Process*> servers;
  // True if the job is done. This field and the following ones describe the
  // result, as reported by the last coordinator.
  bool done = false;
  absl::StatusOr<ModelState> result = absl::UnknownError("there is none");
  int64_t result_attempt = 0;
  double evaluation_loss = 0;
  int64_t skipped = 0;
  int64_t restarts = 0;
  // Number of injected faults by kind. Also counts the attempts that began from
  // in-memory replicas.
  std::map<std::string, int64_t> injected;

  std::string disk_folder() const { return folder_ + "/disk"; }

  // Records the violation of a property. Keeps only the first violation.
  void Violate(const std::string& what);
  const std::string& violation() const { return violation_; }

  // Connects to the process that `target` returns. Calls `done` in the scope
  // `client` with the connection, or with an error if there is none by
  // `deadline`. Calls `target` again before each try.
  void Connect(const std::shared_ptr<Life>& client,
               std::function<Process*()> target, Service service,
               absl::Time deadline,
               std::function<void(absl::StatusOr<std::shared_ptr<Link>>)> done);
  // Like Connect, but blocks a thread of the process `client` until there is a
  // connection or an error. Stops soon after `stop` returns true.
  absl::StatusOr<std::shared_ptr<Link>> AwaitConnection(
      const std::shared_ptr<Life>& client,
      const std::function<Process*()>& target, Service service,
      absl::Time deadline, const std::function<bool()>& stop);
  // Returns the process of this name, or null.
  Process* Find(absl::string_view name) const;
  // Returns true if a call from the process with number `client` reaches
  // `process` now.
  bool Reaches(int client, const Process& process) const;
  // Cuts the connections between `process` and `other`, or all connections of
  // `process` if `other` is -1.
  void CutLinks(int process, int other, absl::Duration notice);

  // Called when a process has ended with a status.
  void OnExit(Process* process, const absl::Status& status);
  void RestartLater(Process* process);

  // Called by the code under test, for the process whose event is running.
  absl::Status HitFailpoint(const char* point);
  void RecordUpdate(int64_t attempt, int chunk, int64_t step,
                    int64_t sample_count);

  // The world of the history that is running, or null. Histories run one at a
  // time.
  static World* current;

 private:
  // Returns null if the process cannot be reached now.
  std::shared_ptr<Link> TryOnce(const std::shared_ptr<Life>& client,
                                Process* process, Service service);
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
