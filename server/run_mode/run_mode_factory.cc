#include "server/run_mode/run_mode_factory.h"

#include "server/run_mode/all_reduce_steps.h"
#include "server/run_mode/leased_steps.h"
#include "server/run_mode/ordered_steps.h"

namespace tributary {
namespace {

std::unique_ptr<RunMode> CreateWithServers(const JobSpec& job,
                                           Membership* membership,
                                           ServerRoster* servers) {
  switch (job.exchange().parameter_server().consistency().mode_case()) {
    case ConsistencySpec::kAsynchronous:
      return std::make_unique<LeasedSteps>(job, membership, servers);
    case ConsistencySpec::kSynchronous:
    case ConsistencySpec::kStaleSynchronous:
    case ConsistencySpec::kLocalSteps:
    case ConsistencySpec::MODE_NOT_SET:
      break;
  }
  return std::make_unique<OrderedSteps>(job, membership, servers);
}

}  // namespace

std::unique_ptr<RunMode> CreateRunMode(const JobSpec& job,
                                       Membership* membership,
                                       ServerRoster* servers) {
  switch (job.exchange().kind_case()) {
    case ExchangeSpec::kAllReduce:
      return std::make_unique<AllReduceSteps>(job, membership, servers);
    case ExchangeSpec::kParameterServer:
    case ExchangeSpec::KIND_NOT_SET:
      break;
  }
  return CreateWithServers(job, membership, servers);
}

}  // namespace tributary
