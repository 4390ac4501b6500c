#include "common/update/consistency/consistency_policy.h"

#include "absl/status/status.h"
#include "common/job/exchange_traits.h"
#include "common/update/consistency/asynchronous_policy.h"
#include "common/update/consistency/ordered_policy.h"

namespace tributary {

absl::StatusOr<std::unique_ptr<ConsistencyPolicy>> ConsistencyPolicy::Create(
    const JobSpec& job, int64_t steps, int64_t first_step) {
  Options options;
  options.leaves = static_cast<int>(job.batch().micro_batches());
  options.dtype = job.exchange().wire_dtype();
  options.steps = steps;
  options.first_step = first_step;
  const ExchangeTraits traits = ResolveExchange(job);
  switch (traits.kind) {
    case ExchangeKind::kSynchronous:
    case ExchangeKind::kBoundedStaleness:
    case ExchangeKind::kLocalSteps:
      return std::make_unique<OrderedPolicy>(options, traits.staleness);
    case ExchangeKind::kAsynchronous:
      return std::make_unique<AsynchronousPolicy>(
          options, ConsistencyOf(job).asynchronous());
    case ExchangeKind::kAllReduce:
      break;
  }
  return absl::InvalidArgumentError(
      "exchange.all_reduce has no consistency mode: workers update the "
      "weights, and servers get no contributions");
}

}  // namespace tributary
