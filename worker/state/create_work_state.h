// Factory for the work state of a consistency mode.
#ifndef TRIBUTARY_WORKER_STATE_CREATE_WORK_STATE_H_
#define TRIBUTARY_WORKER_STATE_CREATE_WORK_STATE_H_

#include <memory>

#include "proto/job.pb.h"
#include "worker/state/work_state.h"

namespace tributary {

// Returns the work state for the job's consistency mode. `job` must be
// resolved. `layout` must outlive the result.
std::unique_ptr<WorkState> CreateWorkState(const JobSpec& job,
                                           const WorkState::Options& options,
                                           const ArenaLayout* layout);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_STATE_CREATE_WORK_STATE_H_
