// Which kind of work a job's consistency mode makes.
#ifndef TRIBUTARY_WORKER_STATE_CREATE_WORK_STATE_H_
#define TRIBUTARY_WORKER_STATE_CREATE_WORK_STATE_H_

#include <memory>

#include "proto/job.pb.h"
#include "worker/state/work_state.h"

namespace tributary {

// The work of the job's consistency mode. `job` is resolved; `layout` must
// outlive the result.
std::unique_ptr<WorkState> CreateWorkState(const JobSpec& job,
                                           const WorkState::Options& options,
                                           const ArenaLayout* layout);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_STATE_CREATE_WORK_STATE_H_
