#include "worker/state/create_work_state.h"

#include "common/job/exchange_traits.h"
#include "worker/state/asynchronous_work.h"
#include "worker/state/stale_synchronous_work.h"
#include "worker/state/synchronous_work.h"

namespace tributary {

std::unique_ptr<WorkState> CreateWorkState(const JobSpec& job,
                                           const WorkState::Options& options,
                                           const ArenaLayout* layout) {
  const ExchangeTraits traits = ResolveExchange(job);
  if (traits.whole_batches) {
    return std::make_unique<AsynchronousWork>(
        options, static_cast<int>(job.batch().micro_batches()), layout);
  }
  if (!traits.one_version_per_round) {
    return std::make_unique<StaleSynchronousWork>(
        options, ConsistencyOf(job).stale_synchronous(), layout);
  }
  return std::make_unique<SynchronousWork>(options, layout);
}

}  // namespace tributary
