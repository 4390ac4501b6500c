#include "common/optimizer/schedule.h"

#include "common/optimizer/optimizer.h"

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

}  // namespace

double LearningRateAt(const JobSpec& job, int64_t total_steps, int64_t step) {
  const ScheduleSpec& schedule = job.schedule();
  const double peak = PeakLearningRate(job.optimizer());
  const int64_t warmup = schedule.warmup_steps();
  if (step < warmup) {
    return peak * static_cast<double>(step + 1) / static_cast<double>(warmup);
  }
  if (schedule.decay() == ScheduleSpec::CONSTANT) return peak;
  const double final_rate = schedule.final_learning_rate();
  const int64_t end =
      schedule.decay_steps() > 0 ? schedule.decay_steps() : total_steps;
  if (step >= end) return final_rate;
  const double progress =
      static_cast<double>(step - warmup) / static_cast<double>(end - warmup);
  const double curve = schedule.decay() == ScheduleSpec::LINEAR
                           ? 1 - progress
                           : 0.5 * (1 + CosinePi(progress));
  return final_rate + (peak - final_rate) * curve;
}

}  // namespace tributary
