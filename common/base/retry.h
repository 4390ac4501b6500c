// Trying again after what may pass by itself.
#ifndef TRIBUTARY_COMMON_BASE_RETRY_H_
#define TRIBUTARY_COMMON_BASE_RETRY_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/monotonic_clock.h"
#include "common/base/shutdown.h"

namespace tributary {

// The peer is away, was restarted, or asks to join again: what was said may or
// may not have been heard, and may be said again. Other errors come back
// whatever is tried.
bool IsTransient(const absl::Status& status);

// Longer and longer waits between attempts, up to a second, none before the
// second attempt; anew after an attempt that has lasted for ten seconds. One
// thread at a time.
class Backoff {
 public:
  // To be called after each attempt. False: `shutdown` was requested.
  bool Wait(Shutdown* shutdown);

 private:
  absl::Duration next_;
  absl::Time attempt_began_ = MonotonicNow();
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_BASE_RETRY_H_
