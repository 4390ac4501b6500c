#include "common/pipeline/pipeline_schedule.h"

#include <algorithm>
#include <string>

namespace tributary {
namespace {

StageLimits AllInFlight(const StageContext& context) {
  return {context.micro_batches, 0};
}

// A stage needs this many micro-batches in flight to be busy while its first
// one passes through the stages after it and back.
StageLimits EarliestBackward(const StageContext& context) {
  return {std::min(context.micro_batches, context.stages - context.stage), 0};
}

// Every stage holds at most as many micro-batches as the first stage of 1F1B.
StageLimits DelayedWeights(const StageContext& context) {
  const int in_flight = EarliestBackward(context).in_flight;
  return {in_flight,
          std::min(context.micro_batches, context.stages) - in_flight};
}

// Each stage waits until the first micro-batch has passed forward through the
// stages before it, and backward through those after it.
double FillAndDrain(int stages, int /*micro_batches*/,
                    const PassSeconds& seconds) {
  return (stages - 1) * seconds.total();
}

// Weight passes do not delay the stages that wait for gradients of inputs, and
// fill a part of their idle time. If no pass is shorter than the weight pass
// and there are at least as many micro-batches as stages, this is the formula
// of Qi et al.: (stages - 1) * (forward + backward_input - backward_weights).
// A longer weight pass fills no more time than the shortest pass. With fewer
// micro-batches, exact for equal passes, otherwise an upper bound.
double FillWithWeightPasses(int stages, int micro_batches,
                            const PassSeconds& seconds) {
  const double filler = std::min(
      {seconds.forward, seconds.backward_input, seconds.backward_weights});
  return (stages - 1) * (seconds.forward + seconds.backward_input) -
         (std::min(stages, micro_batches) - 1) * filler;
}

constexpr ScheduleTraits kSchedules[] = {
    {PipelineSchedule::kGPipe, "GPIPE", /*splits_backward=*/false, AllInFlight,
     FillAndDrain},
    {PipelineSchedule::kOneForwardOneBackward, "ONE_F_ONE_B",
     /*splits_backward=*/false, EarliestBackward, FillAndDrain},
    {PipelineSchedule::kZeroBubble, "ZERO_BUBBLE", /*splits_backward=*/true,
     DelayedWeights, FillWithWeightPasses},
};

}  // namespace

absl::Span<const ScheduleTraits> AllSchedules() { return kSchedules; }

const ScheduleTraits& TraitsOf(PipelineSchedule schedule) {
  return kSchedules[static_cast<int>(schedule)];
}

PipelineSchedule ScheduleOf(const PipelineSpec& spec) {
  const std::string& name = PipelineSpec::Schedule_Name(spec.schedule());
  for (const ScheduleTraits& traits : AllSchedules()) {
    if (traits.name == name) return traits.schedule;
  }
  return PipelineSchedule::kZeroBubble;
}

std::vector<PipelineOperation> StageOrder(PipelineSchedule schedule,
                                          const StageContext& context) {
  const ScheduleTraits& traits = TraitsOf(schedule);
  const StageLimits limits = traits.limits(context);
  const int micro_batches = context.micro_batches;
  std::vector<PipelineOperation> order;
  int forward = 0;
  int weights = 0;
  for (int backward = 0; backward < micro_batches; ++backward) {
    const int end = std::min(micro_batches, backward + limits.in_flight);
    while (forward < end) order.push_back({PipelinePass::kForward, forward++});
    if (!traits.splits_backward) {
      order.push_back({PipelinePass::kBackward, backward});
      continue;
    }
    order.push_back({PipelinePass::kBackwardInput, backward});
    if (backward - weights >= limits.delayed)
      order.push_back({PipelinePass::kBackwardWeights, weights++});
  }
  while (traits.splits_backward && weights < micro_batches)
    order.push_back({PipelinePass::kBackwardWeights, weights++});
  return order;
}

double BubbleFraction(PipelineSchedule schedule, int stages, int micro_batches,
                      const PassSeconds& seconds) {
  const double idle =
      TraitsOf(schedule).idle_seconds(stages, micro_batches, seconds);
  const double step = micro_batches * seconds.total() + idle;
  return step > 0 ? idle / step : 0;
}

}  // namespace tributary
