#include "server/run_mode/run_mode_factory.h"

#include "common/job/exchange_traits.h"
#include "server/run_mode/all_reduce_steps.h"
#include "server/run_mode/leased_steps.h"
#include "server/run_mode/ordered_steps.h"

namespace tributary {

std::unique_ptr<RunMode> CreateRunMode(const JobSpec& job,
                                       Membership* membership,
                                       ServerRoster* servers) {
  const ExchangeTraits traits = ResolveExchange(job);
  if (!traits.servers_update) {
    return std::make_unique<AllReduceSteps>(job, membership, servers);
  }
  if (traits.whole_batches) {
    return std::make_unique<LeasedSteps>(job, membership, servers);
  }
  return std::make_unique<OrderedSteps>(job, membership, servers);
}

}  // namespace tributary
