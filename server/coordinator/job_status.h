// Describes a running job: its progress, the phase of each process, and the
// process that each process waits for.
#ifndef TRIBUTARY_SERVER_COORDINATOR_JOB_STATUS_H_
#define TRIBUTARY_SERVER_COORDINATOR_JOB_STATUS_H_

#include "proto/rendezvous.pb.h"
#include "server/coordinator/attempt.h"

namespace tributary {

// Returns the status of the job. Lists the servers by shard, then the workers
// in the order in which they joined.
StatusReply DescribeJob(const Attempt& attempt);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_COORDINATOR_JOB_STATUS_H_
