// Retries of operations that fail for transient reasons.
#ifndef TRIBUTARY_COMMON_BASE_RETRY_H_
#define TRIBUTARY_COMMON_BASE_RETRY_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/monotonic_clock.h"
#include "common/base/shutdown.h"

namespace tributary {

// Returns true if `status` is an error after which a retry may succeed: the
// peer is unreachable, has restarted, or requires that the caller joins again.
// The peer may or may not have applied the failed operation. After any other
// error a retry does not help.
bool IsTransient(const absl::Status& status);

// Exponential backoff, up to one second. The second attempt follows the first
// without a wait. An attempt that lasted longer than ten seconds resets the
// backoff. Not thread-safe.
class Backoff {
 public:
  // Blocks until the next attempt is due; call it after each failed attempt.
  // Returns false if `shutdown` was requested.
  bool Wait(Shutdown* shutdown);

 private:
  absl::Duration next_;
  absl::Time attempt_began_ = MonotonicNow();
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_BASE_RETRY_H_
