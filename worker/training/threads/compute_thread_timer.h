// Measurement of a compute thread's time by activity.
#ifndef TRIBUTARY_WORKER_TRAINING_THREADS_COMPUTE_THREAD_TIMER_H_
#define TRIBUTARY_WORKER_TRAINING_THREADS_COMPUTE_THREAD_TIMER_H_

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

// Returns the name used in Heartbeat.phase: "idle", "data", ...
const char* ActivityName(Activity activity);

// The time that a thread has spent on each activity.
class TimeSpent {
 public:
  absl::Duration operator[](Activity activity) const {
    return times_[static_cast<int>(activity)];
  }
  absl::Duration& operator[](Activity activity) {
    return times_[static_cast<int>(activity)];
  }
  // Returns the sum over all activities except idle.
  absl::Duration Total() const;
  void Add(const TimeSpent& other);
  void Scale(double factor);

 private:
  std::array<absl::Duration, kActivities> times_ = {};
};

// Measures the time of one thread, which reports its changes of activity.
// `activity` may be called from any thread. All other methods may be called
// only from the measured thread.
class ComputeThreadTimer {
 public:
  using Clock = std::function<absl::Time()>;
  explicit ComputeThreadTimer(Clock clock);

  // Ends the current activity and begins `next`.
  void Switch(Activity next);
  Activity activity() const { return activity_; }
  // Returns the time spent on each activity between the last call of Take and
  // the last call of Switch.
  const TimeSpent& spent() const { return spent_; }
  // Returns spent() and resets it to zero.
  TimeSpent Take();

 private:
  const Clock clock_;
  std::atomic<Activity> activity_{Activity::kIdle};
  absl::Time since_;
  TimeSpent spent_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_TRAINING_THREADS_COMPUTE_THREAD_TIMER_H_
