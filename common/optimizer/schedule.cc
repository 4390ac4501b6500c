#include "common/optimizer/schedule.h"

#include <algorithm>
#include <iterator>

#include "common/optimizer/optimizer.h"
#include "common/optimizer/power.h"

namespace tributary {
namespace {

// Returns x - x^3/3! + x^5/5! - ... (or 1 - x^2/2! + ...) for |x| <= pi / 4,
// where the omitted terms are below 1e-18. `first` is the first term, of power
// `power`.
double Series(double x, double first, int power) {
  double term = first;
  double sum = first;
  for (int n = power + 1; n < power + 18; n += 2) {
    term *= -x * x / (n * (n + 1));
    sum += term;
  }
  return sum;
}

// Returns cos(pi t) for t in [0, 1]. Does not use the C library's cosine, which
// may differ in its last bit between processors.
double CosinePi(double t) {
  constexpr double kPi = 3.14159265358979323846;
  if (t > 0.5) return -CosinePi(1 - t);
  if (t <= 0.25) return Series(kPi * t, 1, 0);
  const double rest = kPi * (0.5 - t);
  return Series(rest, rest, 1);
}

// Returns the value at t in [0, 1] of the half of a cosine from `from` to `to`.
double HalfCosine(double from, double to, double t) {
  return to + (from - to) * (0.5 * (1 + CosinePi(t)));
}

// Returns the rate of LINEAR, COSINE or POLYNOMIAL at t in [0, 1).
double FallingRate(const ScheduleSpec& schedule, double peak, double t) {
  const double last = schedule.final_learning_rate();
  switch (schedule.decay()) {
    case ScheduleSpec::COSINE:
      return HalfCosine(peak, last, t);
    case ScheduleSpec::POLYNOMIAL:
      return last + (peak - last) * Power(1 - t, schedule.power());
    default:
      return last + (peak - last) * (1 - t);
  }
}

double OneCycleRate(const ScheduleSpec& schedule, double peak, int64_t end,
                    int64_t step) {
  const double last = schedule.final_learning_rate();
  if (step >= end - 1) return last;
  const double top = schedule.rise_share() * static_cast<double>(end) - 1;
  const double at = static_cast<double>(step);
  if (at < top) {
    return HalfCosine(peak / schedule.rise_divisor(), peak, at / top);
  }
  return HalfCosine(peak, last,
                    (at - top) / (static_cast<double>(end - 1) - top));
}

double TableRate(const ScheduleSpec& schedule, int64_t step) {
  const auto next =
      std::upper_bound(schedule.table().begin(), schedule.table().end(), step,
                       [](int64_t at, const ScheduleSpec::Entry& entry) {
                         return at < entry.step();
                       });
  return std::prev(next)->learning_rate();
}

}  // namespace

bool HasEnd(ScheduleSpec::Decay decay) {
  return decay == ScheduleSpec::LINEAR || decay == ScheduleSpec::COSINE ||
         decay == ScheduleSpec::POLYNOMIAL || decay == ScheduleSpec::ONE_CYCLE;
}

double LearningRateAt(const JobSpec& job, int64_t total_steps, int64_t step) {
  const ScheduleSpec& schedule = job.schedule();
  const double peak = PeakLearningRate(job.optimizer());
  const int64_t warmup = schedule.warmup_steps();
  if (step < warmup) {
    return peak * static_cast<double>(step + 1) / static_cast<double>(warmup);
  }
  const int64_t end =
      schedule.decay_steps() > 0 ? schedule.decay_steps() : total_steps;
  const int64_t since = step - warmup;
  const int64_t every = schedule.decay_every_steps();
  switch (schedule.decay()) {
    case ScheduleSpec::LINEAR:
    case ScheduleSpec::COSINE:
    case ScheduleSpec::POLYNOMIAL:
      if (step >= end) return schedule.final_learning_rate();
      return FallingRate(
          schedule, peak,
          static_cast<double>(since) / static_cast<double>(end - warmup));
    case ScheduleSpec::STEP:
      return peak *
             Power(schedule.decay_factor(), static_cast<double>(since / every));
    case ScheduleSpec::EXPONENTIAL:
      return peak *
             Power(schedule.decay_factor(),
                   static_cast<double>(since) / static_cast<double>(every));
    case ScheduleSpec::ONE_CYCLE:
      return OneCycleRate(schedule, peak, end, step);
    case ScheduleSpec::TABLE:
      return TableRate(schedule, step);
    default:
      return peak;
  }
}

}  // namespace tributary
