// Enforces the timeouts of an attempt.
#ifndef TRIBUTARY_SERVER_COORDINATOR_WATCHDOG_H_
#define TRIBUTARY_SERVER_COORDINATOR_WATCHDOG_H_

#include "absl/time/time.h"
#include "server/coordinator/admission_control.h"
#include "server/coordinator/attempt.h"

namespace tributary {

// Checks for processes whose lease has expired, servers and workers that do not
// connect, a step that does not complete, and workers that do not leave after
// training. If this process itself pauses for longer than a quarter of the
// lease (because it is suspended or gets no CPU time), the pause does not count
// toward any lease.
//
// Modifies `attempt` and `admission`, which must outlive this object. See
// Attempt for thread safety.
class Watchdog {
 public:
  Watchdog(Attempt* attempt, AdmissionControl* admission);

  // Makes all checks of this class. Call it several times a second. Also calls
  // AdmissionControl::PrepareIfDue and StartIfDue, and
  // Attempt::RunCheckpointsWhileIdle.
  void Tick();

 private:
  void ForgivePause(absl::Time now);
  void ExpireServers(absl::Time now);
  void AwaitServers(absl::Time now);
  void ExpireWorkers(absl::Time now);
  void AwaitWorkers(absl::Time now);
  // Removes the worker that delays a step for too long. If no such worker can
  // be identified, or no other worker is left, ends the attempt, so that a new
  // attempt begins. Does nothing while a worker evaluates.
  void EndStall(absl::Time now);

  Attempt& attempt_;
  AdmissionControl& admission_;
  absl::Time last_tick_;
  absl::Time servers_missing_since_;
  absl::Time stall_ended_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_COORDINATOR_WATCHDOG_H_
