#include "worker/exchange/exchange.h"

#include "common/job/exchange_traits.h"
#include "common/optimizer/schedule.h"

namespace tributary {

Exchange::Exchange(const JobSpec& job, const ArenaLayout* layout) {
  plan_.layout = layout;
  plan_.tree_leaves = static_cast<int>(job.batch().micro_batches());
  plan_.dtype = job.exchange().wire_dtype();
  const ExchangeTraits traits = ResolveExchange(job);
  plan_.awaits_norm = traits.contributions_await_norm;
  if (!traits.local_sgd) plan_.rates = &rates_;
  if (job.schedule().decay() == ScheduleSpec::PLATEAU) plateau_ = job;
}

std::unique_ptr<StepGradients> Exchange::Begin(
    int64_t step, const std::vector<int64_t>& micro_batches,
    double rate_factor) {
  OnBegin(step);
  if (plateau_.has_value()) {
    // The rate of the warm-up, or the peak; the length of the job does not
    // matter. A step always has the same rate, so Add does not fail.
    const double rate = LearningRateAt(*plateau_, /*total_steps=*/0, step);
    rates_.Add(step, rate * rate_factor).IgnoreError();
  }
  StepGradients::Plan plan = plan_;
  // Only the server can add sums in its GPU's memory.
  plan.adds = DeviceWeights(step).empty();
  plan.device = device();
  return std::make_unique<StepGradients>(
      plan, step, micro_batches, [this](int chunk) { return SenderOf(chunk); });
}

}  // namespace tributary
