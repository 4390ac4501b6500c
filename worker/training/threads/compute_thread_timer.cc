#include "worker/training/threads/compute_thread_timer.h"

#include <utility>

namespace tributary {

const char* ActivityName(Activity activity) {
  switch (activity) {
    case Activity::kIdle:
      return "idle";
    case Activity::kData:
      return "data";
    case Activity::kForward:
      return "forward";
    case Activity::kBackward:
      return "backward";
    case Activity::kExchange:
      return "exchange";
    case Activity::kEvaluate:
      return "evaluate";
  }
  return "idle";
}

absl::Duration TimeSpent::Total() const {
  absl::Duration total;
  for (const absl::Duration time : times_) total += time;
  return total - (*this)[Activity::kIdle];
}

void TimeSpent::Add(const TimeSpent& other) {
  for (int i = 0; i < kActivities; ++i) times_[i] += other.times_[i];
}

void TimeSpent::Scale(double factor) {
  for (absl::Duration& time : times_) time *= factor;
}

ComputeThreadTimer::ComputeThreadTimer(Clock clock)
    : clock_(std::move(clock)), since_(clock_()) {}

void ComputeThreadTimer::Switch(Activity next) {
  const absl::Time now = clock_();
  spent_[activity_] += now - since_;
  since_ = now;
  activity_ = next;
}

TimeSpent ComputeThreadTimer::Take() {
  return std::exchange(spent_, TimeSpent());
}

}  // namespace tributary
