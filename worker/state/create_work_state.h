// Factory for the work state of a consistency mode.
#ifndef TRIBUTARY_WORKER_STATE_CREATE_WORK_STATE_H_
#define TRIBUTARY_WORKER_STATE_CREATE_WORK_STATE_H_

#include <memory>

#include "proto/job.pb.h"
#include "worker/state/work_state.h"

namespace tributary {

// Creates the WorkState that implements the job's consistency mode, such as
// `synchronous`. `job` must be resolved (see ResolveJob). `layout` must outlive
// the result.
std::unique_ptr<WorkState> CreateWorkState(const JobSpec& job,
                                           const WorkState::Options& options,
                                           const ArenaLayout* layout);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_STATE_CREATE_WORK_STATE_H_
