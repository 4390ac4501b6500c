// Calls a function periodically on a thread of its own.
#ifndef TRIBUTARY_COMMON_BASE_PULSE_H_
#define TRIBUTARY_COMMON_BASE_PULSE_H_

#include <functional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/monotonic_clock.h"
#include "common/base/thread.h"

namespace tributary {

// Calls `beat` on a thread of its own every `interval`, for the first time
// after one interval. Used to send heartbeats. The destructor stops and joins
// the thread. Thread-safe. `beat` must be thread-safe too: if it takes longer
// than half an interval, BeatEarly and the thread may run it at the same time.
class Pulse {
 public:
  Pulse(absl::Duration interval, std::function<void()> beat)
      : interval_(interval), beat_(std::move(beat)), thread_([this] {
          absl::Duration wait = interval_;
          while (!AwaitStop(wait)) wait = BeatUnlessWithin(interval_);
        }) {}
  ~Pulse() {
    {
      absl::MutexLock lock(&mu_);
      stop_ = true;
    }
    thread_.Join();
  }
  Pulse(const Pulse&) = delete;
  Pulse& operator=(const Pulse&) = delete;

  // Calls `beat` on the calling thread, unless the last call of `beat` began
  // less than half an interval ago.
  void BeatEarly() { BeatUnlessWithin(interval_ / 2); }

 private:
  bool AwaitStop(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return AwaitFor(&mu_, absl::Condition(&stop_), timeout);
  }

  // Calls `beat` unless the last call of `beat` began less than `gap` ago.
  // Returns the time until the next periodic call is due.
  absl::Duration BeatUnlessWithin(absl::Duration gap) ABSL_LOCKS_EXCLUDED(mu_) {
    {
      absl::MutexLock lock(&mu_);
      const absl::Time now = MonotonicNow();
      if (now - last_ < gap) return last_ + interval_ - now;
      last_ = now;
    }
    beat_();
    return interval_;
  }

  const absl::Duration interval_;
  const std::function<void()> beat_;
  absl::Mutex mu_;
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  absl::Time last_ ABSL_GUARDED_BY(mu_) = MonotonicNow();
  // Declared last, so that the thread starts after the members that it uses
  // have been initialized.
  Thread thread_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_BASE_PULSE_H_
