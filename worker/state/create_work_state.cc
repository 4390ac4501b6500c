#include "worker/state/create_work_state.h"

#include "common/job/exchange_traits.h"
#include "worker/state/asynchronous_work.h"
#include "worker/state/stale_synchronous_work.h"
#include "worker/state/synchronous_work.h"

namespace tributary {

std::unique_ptr<WorkState> CreateWorkState(const JobSpec& job,
                                           const WorkState::Options& options,
                                           const ArenaLayout* layout) {
  switch (ResolveExchange(job).kind) {
    case ExchangeKind::kAsynchronous:
      return std::make_unique<AsynchronousWork>(
          options, static_cast<int>(job.batch().micro_batches()), layout);
    case ExchangeKind::kBoundedStaleness:
      return std::make_unique<StaleSynchronousWork>(
          options, ConsistencyOf(job).stale_synchronous(), layout);
    case ExchangeKind::kSynchronous:
    case ExchangeKind::kLocalSteps:
    case ExchangeKind::kAllReduce:
      break;
  }
  return std::make_unique<SynchronousWork>(options, layout);
}

}  // namespace tributary
