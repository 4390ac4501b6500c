#include "worker/state/create_work_state.h"

#include "worker/state/asynchronous_work.h"
#include "worker/state/stale_synchronous_work.h"
#include "worker/state/synchronous_work.h"

namespace tributary {

std::unique_ptr<WorkState> CreateWorkState(const JobSpec& job,
                                           const WorkState::Options& options,
                                           const ArenaLayout* layout) {
  const ConsistencySpec& consistency =
      job.exchange().parameter_server().consistency();
  if (consistency.has_asynchronous()) {
    return std::make_unique<AsynchronousWork>(
        options, static_cast<int>(job.batch().micro_batches()), layout);
  }
  // With staleness 0 the result must be bit-identical to synchronous mode.
  if (consistency.has_stale_synchronous() &&
      consistency.stale_synchronous().staleness() > 0) {
    return std::make_unique<StaleSynchronousWork>(
        options, consistency.stale_synchronous(), layout);
  }
  return std::make_unique<SynchronousWork>(options, layout);
}

}  // namespace tributary
