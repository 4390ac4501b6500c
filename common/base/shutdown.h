// A request to shut down this process, made after a signal or by a test. The
// request ends the waits of the process.
#ifndef TRIBUTARY_COMMON_BASE_SHUTDOWN_H_
#define TRIBUTARY_COMMON_BASE_SHUTDOWN_H_

#include <functional>
#include <list>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/monotonic_clock.h"

namespace tributary {

// A request to shut down this process. Notifies waiting threads and callbacks
// when the request is made. Thread-safe, but not async-signal-safe: receive
// signals on a thread with sigwait and call Request there.
class Shutdown {
 public:
  // Keeps a callback registered for the lifetime of this object.
  class Registration {
   public:
    // Unregisters the callback. Blocks while callbacks run.
    ~Registration() {
      absl::MutexLock lock(&shutdown_->callbacks_mu_);
      shutdown_->callbacks_.erase(place_);
    }
    Registration(const Registration&) = delete;
    Registration& operator=(const Registration&) = delete;

   private:
    friend class Shutdown;
    using Place = std::list<std::function<void()>>::iterator;
    Registration(Shutdown* shutdown, Place place)
        : shutdown_(shutdown), place_(place) {}

    Shutdown* const shutdown_;
    const Place place_;
  };

  // Makes the request, and calls the registered callbacks on the calling
  // thread. Only the first call has an effect.
  void Request() ABSL_LOCKS_EXCLUDED(mu_, callbacks_mu_) {
    absl::MutexLock running(&callbacks_mu_);
    {
      absl::MutexLock lock(&mu_);
      if (requested_) return;
      requested_ = true;
    }
    for (const auto& callback : callbacks_) callback();
  }

  bool requested() const ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return requested_;
  }

  // Blocks until a shutdown is requested or `timeout` has passed. Returns true
  // if it was requested.
  bool AwaitRequest(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return AwaitFor(&mu_, absl::Condition(&requested_), timeout);
  }

  // Registers `callback` to be called on the thread that calls Request. If the
  // request was made already, calls it immediately on the calling thread. The
  // callback must be quick and must not create or destroy registrations. The
  // registration must not outlive this object.
  ABSL_MUST_USE_RESULT Registration OnRequest(std::function<void()> callback)
      ABSL_LOCKS_EXCLUDED(mu_, callbacks_mu_) {
    absl::MutexLock running(&callbacks_mu_);
    if (requested()) callback();
    return Registration(
        this, callbacks_.insert(callbacks_.end(), std::move(callback)));
  }

 private:
  mutable absl::Mutex mu_;
  bool requested_ ABSL_GUARDED_BY(mu_) = false;
  absl::Mutex callbacks_mu_;  // Held while callbacks run.
  std::list<std::function<void()>> callbacks_ ABSL_GUARDED_BY(callbacks_mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_BASE_SHUTDOWN_H_
