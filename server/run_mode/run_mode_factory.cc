#include "server/run_mode/run_mode_factory.h"

#include "common/job/exchange_traits.h"
#include "server/run_mode/all_reduce_steps.h"
#include "server/run_mode/leased_steps.h"

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
  // Workers and servers decide without the coordinator how far a worker may run
  // ahead (see WorkState and ConsistencyPolicy).
  return std::make_unique<RunMode>(job, membership, servers);
}

}  // namespace tributary
