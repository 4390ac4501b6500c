// Retries of operations that fail for transient reasons.
#ifndef TRIBUTARY_COMMON_BASE_BACKOFF_H_
#define TRIBUTARY_COMMON_BASE_BACKOFF_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/monotonic_clock.h"
#include "common/base/shutdown.h"

namespace tributary {

// Returns true if `status` is an error after which a retry may succeed:
// Unavailable, DeadlineExceeded, Aborted (which tells the caller to join the
// job again), and Unknown, Internal and Cancelled, which gRPC reports if a
// connection breaks during a call. The peer may or may not have applied the
// failed operation. Returns false for OK and for all other errors.
bool IsTransient(const absl::Status& status);

// Exponential backoff between the tries of an operation. There is no wait
// before the second try, and 50 ms before the third; each further wait is twice
// as long, up to one second. A try that lasted longer than ten seconds resets
// the backoff. Create the object when the first try starts. Not thread-safe.
class Backoff {
 public:
  // Blocks until the next try is due, and returns true. Returns false as soon
  // as `shutdown` is requested. Call after each failed try.
  bool Wait(Shutdown* shutdown);

 private:
  absl::Duration next_;
  absl::Time attempt_began_ = MonotonicNow();
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_BASE_BACKOFF_H_
