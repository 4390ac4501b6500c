// Something that is done again and again, on a thread of its own.
#ifndef TRIBUTARY_COMMON_BASE_PULSE_H_
#define TRIBUTARY_COMMON_BASE_PULSE_H_

#include <functional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/monotonic_clock.h"

namespace tributary {

// Heartbeats: the first one comes after one interval. Ends when it is
// destroyed. Thread-safe.
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
    thread_.join();
  }
  Pulse(const Pulse&) = delete;
  Pulse& operator=(const Pulse&) = delete;

  // Now is a better moment than the next regular one: beats at once, if the
  // last beat is not too fresh, on this thread.
  void BeatEarly() { BeatUnlessWithin(interval_ / 2); }

 private:
  bool AwaitStop(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return AwaitFor(&mu_, absl::Condition(&stop_), timeout);
  }

  // Time left to the next regular beat.
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
  std::thread thread_;  // The last member: it uses the others.
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_BASE_PULSE_H_
