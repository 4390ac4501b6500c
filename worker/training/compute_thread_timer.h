// What a computing thread is doing, and for how long it has been doing what.
#ifndef TRIBUTARY_WORKER_TRAINING_COMPUTE_THREAD_TIMER_H_
#define TRIBUTARY_WORKER_TRAINING_COMPUTE_THREAD_TIMER_H_

#include <array>
#include <atomic>
#include <functional>

#include "absl/time/time.h"

namespace tributary {

enum class Activity {
  kIdle,
  kData,  // Waiting for samples.
  kForward,
  kBackward,
  kExchange,  // Waiting for weights.
  kEvaluate,
};
inline constexpr int kActivities = 6;

// As in Heartbeat.phase: "idle", "data", ...
const char* ActivityName(Activity activity);

// Time by activity.
class TimeSpent {
 public:
  absl::Duration operator[](Activity activity) const {
    return times_[static_cast<int>(activity)];
  }
  absl::Duration& operator[](Activity activity) {
    return times_[static_cast<int>(activity)];
  }
  // Idle time left out.
  absl::Duration Total() const;
  void Add(const TimeSpent& other);
  // Multiplies every time by `factor`.
  void Scale(double factor);

 private:
  std::array<absl::Duration, kActivities> times_ = {};
};

// For one thread, which says what it turns to; `activity` may be asked from
// any.
class ComputeThreadTimer {
 public:
  using Clock = std::function<absl::Time()>;
  explicit ComputeThreadTimer(Clock clock);

  void Switch(Activity next);
  Activity activity() const { return activity_; }
  // Up to the last Switch, since the last Take.
  const TimeSpent& spent() const { return spent_; }
  // The same, and starts again from zero.
  TimeSpent Take();

 private:
  const Clock clock_;
  std::atomic<Activity> activity_{Activity::kIdle};
  absl::Time since_;
  TimeSpent spent_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_TRAINING_COMPUTE_THREAD_TIMER_H_
