// Describes a running job: its progress, the phase of each process, and the
// process that each process waits for.
#ifndef TRIBUTARY_SERVER_COORDINATOR_JOB_STATUS_H_
#define TRIBUTARY_SERVER_COORDINATOR_JOB_STATUS_H_

#include <cstdint>

#include "absl/time/time.h"
#include "proto/rendezvous.pb.h"
#include "server/coordinator/attempt_checkpoints.h"
#include "server/coordinator/attempt_phase.h"
#include "server/membership/membership.h"
#include "server/membership/server_roster.h"
#include "server/progress/job_progress.h"

namespace tributary {

// The state of a job that DescribeJob describes. `progress` and `checkpoints`
// are null until the workers agree on the model and the data. If the job was
// complete before this attempt, `checkpoints` stays null, and `progress` is set
// although no worker joins.
struct JobView {
  const ServerRoster& servers;
  const Membership& membership;
  const JobProgress* progress;
  const AttemptCheckpoints* checkpoints;
  const AttemptPhase& phase;
  int64_t attempt;
  absl::Duration lease;
  absl::Time now;
};

// Returns the status of the job. Lists the servers by shard, then the workers
// in the order in which they joined.
StatusReply DescribeJob(const JobView& view);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_COORDINATOR_JOB_STATUS_H_
