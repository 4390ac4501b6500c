// A request to stop, made once by a signal or a test and seen by every wait of
// a process.
#ifndef TRIBUTARY_COMMON_SHUTDOWN_H_
#define TRIBUTARY_COMMON_SHUTDOWN_H_

#include <functional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/monotonic_clock.h"

namespace tributary {

// Thread-safe, but not async-signal-safe: a signal must reach it through a
// thread (sigwait).
class Shutdown {
 public:
  void Request() ABSL_LOCKS_EXCLUDED(mu_) {
    std::vector<std::function<void()>> callbacks;
    {
      absl::MutexLock lock(&mu_);
      if (requested_) return;
      requested_ = true;
      callbacks.swap(callbacks_);
    }
    for (auto& callback : callbacks) callback();
  }

  bool requested() const ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return requested_;
  }

  // Waits for the request. False: `timeout` has passed first.
  bool AwaitRequest(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return AwaitFor(&mu_, absl::Condition(&requested_), timeout);
  }

  // Runs `callback` on the requesting thread, or at once if the request came
  // already. It must be quick, and what it refers to must live until no more
  // requests can come.
  void OnRequest(std::function<void()> callback) ABSL_LOCKS_EXCLUDED(mu_) {
    {
      absl::MutexLock lock(&mu_);
      if (!requested_) {
        callbacks_.push_back(std::move(callback));
        return;
      }
    }
    callback();
  }

 private:
  mutable absl::Mutex mu_;
  bool requested_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::function<void()>> callbacks_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_SHUTDOWN_H_
