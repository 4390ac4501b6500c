// Enforces the timeouts of an attempt.
#ifndef TRIBUTARY_SERVER_COORDINATOR_WATCHDOG_H_
#define TRIBUTARY_SERVER_COORDINATOR_WATCHDOG_H_

#include <cstdint>

#include "absl/time/time.h"
#include "server/coordinator/admission_control.h"
#include "server/coordinator/attempt.h"
#include "server/coordinator/peers.h"
#include "server/coordinator/training.h"
#include "server/coordinator/work_assignment.h"

namespace tributary {

// Checks for processes whose lease has expired, servers and workers that do not
// connect, a step that does not complete, and workers that do not leave after
// training. If this process itself pauses for longer than a quarter of the
// lease (because it is suspended or gets no CPU time), the pause does not count
// toward any lease.
//
// See Attempt for thread safety.
class Watchdog {
 public:
  // All arguments must outlive this object.
  Watchdog(Attempt* attempt, WorkAssignment* assignment, Training* training,
           Peers* peers, AdmissionControl* admission);

  // Makes all checks of this class. Call it several times a second. Also calls
  // AdmissionControl::PrepareIfDue and StartIfDue, and
  // Training::RunCheckpointsWhileIdle.
  void Tick();

  // Returns true if the attempt was ended because it completed no step, and no
  // worker could be identified that delayed it.
  bool stalled() const { return stalled_; }

 private:
  void ForgivePause(absl::Time now);
  void ExpireServers(absl::Time now);
  void AwaitServers(absl::Time now);
  void ExpireWorkers(absl::Time now);
  void AwaitWorkers(absl::Time now);
  // Removes the worker that delays a step or an evaluation for too long. If no
  // such worker can be identified, ends the attempt, so that a new attempt
  // begins. Fails the job when the same step has stalled several times.
  void EndStall(absl::Time now);

  Attempt& attempt_;
  WorkAssignment& assignment_;
  Training& training_;
  Peers& peers_;
  AdmissionControl& admission_;
  absl::Time last_tick_;
  absl::Time servers_missing_since_;
  absl::Time stall_ended_;
  // How often the step with this number has stalled.
  int64_t stalled_round_ = -1;
  int stalls_ = 0;
  int64_t begun_round_ = -1;  // The round that training has begun with.
  bool stalled_ = false;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_COORDINATOR_WATCHDOG_H_
