// Ends what takes too long in an attempt.
#ifndef TRIBUTARY_SERVER_COORDINATOR_WATCHDOG_H_
#define TRIBUTARY_SERVER_COORDINATOR_WATCHDOG_H_

#include "absl/time/time.h"
#include "server/coordinator/admission_control.h"
#include "server/coordinator/attempt.h"

namespace tributary {

// Looks at the clock: at leases of workers and servers, at servers and workers
// that do not come, at a step that does not end, and at workers that do not
// leave. Time in which this process stood still (stopped, or starved) counts
// for nobody's lease.
//
// Acts on both objects, which must outlive it; threads are as there.
class Watchdog {
 public:
  Watchdog(Attempt* attempt, AdmissionControl* admission);

  // To be called several times a second. Also begins what waits for time to
  // pass: see AdmissionControl::PrepareIfDue and StartIfDue.
  void Tick();

 private:
  void ForgivePause(absl::Time now);
  void ExpireServers(absl::Time now);
  void AwaitServers(absl::Time now);
  void ExpireWorkers(absl::Time now);
  void AwaitWorkers(absl::Time now);
  // Does without the worker that holds a step up for too long; where it cannot
  // be told who does, lets everybody begin again.
  void EndStall(absl::Time now);

  Attempt& attempt_;
  AdmissionControl& admission_;
  absl::Time last_tick_;
  absl::Time servers_missing_since_;
  absl::Time stall_ended_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_COORDINATOR_WATCHDOG_H_
