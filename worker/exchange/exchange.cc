#include "worker/exchange/exchange.h"

#include "common/job/exchange_traits.h"

namespace tributary {

Exchange::Exchange(const JobSpec& job, const ArenaLayout* layout) {
  plan_.layout = layout;
  plan_.tree_leaves = static_cast<int>(job.batch().micro_batches());
  plan_.dtype = job.exchange().wire_dtype();
  const ExchangeTraits traits = ResolveExchange(job);
  plan_.awaits_norm = traits.contributions_await_norm;
  if (!traits.local_sgd) plan_.rates = &rates_;
}

std::unique_ptr<StepGradients> Exchange::Begin(
    int64_t step, const std::vector<int64_t>& micro_batches) {
  OnBegin(step);
  StepGradients::Plan plan = plan_;
  // Only the server can add sums in its GPU's memory.
  plan.adds = DeviceWeights(step).empty();
  plan.device = device();
  return std::make_unique<StepGradients>(
      plan, step, micro_batches, [this](int chunk) { return SenderOf(chunk); });
}

}  // namespace tributary
