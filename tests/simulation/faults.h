// Injects the faults of a history at times that depend only on the seed.
#ifndef TRIBUTARY_TESTS_SIMULATION_FAULTS_H_
#define TRIBUTARY_TESTS_SIMULATION_FAULTS_H_

#include <cstdint>

#include "absl/time/time.h"
#include "tests/simulation/world/world.h"

namespace tributary::simulation {

// Injects faults into the processes, the network and the disk of a history.
class Faults {
 public:
  // `spare_coordinator` is started while the coordinator is paused.
  // `spare_worker` claims the rank of another worker. All arguments must
  // outlive this object.
  Faults(World* world, Process* coordinator, Process* spare_coordinator,
         Process* spare_worker);

  // Call it after each event.
  void OnEvent();
  // True when no fault is in progress or pending.
  bool over() const;

 private:
  void Inject();
  void CrashSome();
  void CrashAll();
  void CrashAtPoint();
  // Makes the failpoint one that a worker passes.
  void ArmForWorker(ArmedFailpoint* armed);
  void CrashAtDiskOperation();
  void BreakDisk();
  void Pause();
  void PauseCoordinator();
  void Partition();
  void CutConnection();
  void ClaimRank();
  void Drain();

  Process* Any();
  // Returns a random process that runs, or null if it finds none.
  Process* AnyRunning();
  // Returns the time until peers notice a crash: zero, or the keepalive
  // timeout.
  absl::Duration Notice();
  void CrashAndRestart(Process* process);
  // Pauses the process and returns for how long.
  absl::Duration Stop(Process* process, absl::Duration least,
                      absl::Duration most);
  void Lasts(absl::Duration duration);

  World* const world_;
  Process* const coordinator_;
  Process* const spare_coordinator_;
  Process* const spare_worker_;
  int left_;
  int64_t next_event_;
  absl::Time last_end_ = absl::InfinitePast();
};

}  // namespace tributary::simulation

#endif  // TRIBUTARY_TESTS_SIMULATION_FAULTS_H_
