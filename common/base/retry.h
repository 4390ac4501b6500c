// Retries of operations that fail for transient reasons.
#ifndef TRIBUTARY_COMMON_BASE_RETRY_H_
#define TRIBUTARY_COMMON_BASE_RETRY_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/monotonic_clock.h"
#include "common/base/shutdown.h"

namespace tributary {

// Returns true if the operation may be retried: the peer is unreachable, has
// restarted, or asks the caller to join again. The failed operation may or may
// not have been applied. Retrying does not help with any other error.
bool IsTransient(const absl::Status& status);

// Exponential backoff, up to one second. The second attempt follows at once,
// and an attempt that lasted ten seconds or longer resets the backoff. Not
// thread-safe.
class Backoff {
 public:
  // Waits for the backoff; call after each attempt. Returns false if `shutdown`
  // was requested.
  bool Wait(Shutdown* shutdown);

 private:
  absl::Duration next_;
  absl::Time attempt_began_ = MonotonicNow();
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_BASE_RETRY_H_
