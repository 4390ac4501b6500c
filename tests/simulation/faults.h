// What goes wrong in a history, and when: all by the seed.
#ifndef TRIBUTARY_TESTS_SIMULATION_FAULTS_H_
#define TRIBUTARY_TESTS_SIMULATION_FAULTS_H_

#include <cstdint>

#include "absl/time/time.h"
#include "tests/simulation/world/world.h"

namespace tributary::simulation {

class Faults {
 public:
  // `spare_coordinator` is started while the other stands still, `spare_worker`
  // claims another's rank. All must outlive this object.
  Faults(World* world, Process* coordinator, Process* spare_coordinator,
         Process* spare_worker);

  // To be called after each event.
  void OnEvent();
  // Nothing more will happen, and nothing that has is still going on.
  bool over() const;

 private:
  void Inject();
  void CrashSome();
  void CrashAll();
  void CrashAtPoint();
  void CrashAtDiskOperation();
  void BreakDisk();
  void Pause();
  void PauseCoordinator();
  void Partition();
  void CutConnection();
  void ClaimRank();
  void Drain();

  Process* Any();
  // A process that runs; null: by chance there was none.
  Process* AnyRunning();
  // How soon others hear of a death: at once, or when keepalive gives up.
  absl::Duration Notice();
  void CrashAndRestart(Process* process);
  // Lets it stand still; returns for how long.
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
