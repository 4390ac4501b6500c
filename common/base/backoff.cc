#include "common/base/backoff.h"

#include <algorithm>

namespace tributary {
namespace {

constexpr absl::Duration kFirst = absl::Milliseconds(50);
constexpr absl::Duration kLongestDelay = absl::Seconds(1);
constexpr absl::Duration kLongAttempt = absl::Seconds(10);

}  // namespace

bool IsTransient(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kDeadlineExceeded:
    // gRPC reports these codes for connections that break during a call.
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kCancelled:
      return true;
    default:
      return false;
  }
}

bool Backoff::Wait(Shutdown* shutdown) {
  if (MonotonicNow() - attempt_began_ > kLongAttempt) {
    next_ = absl::ZeroDuration();
  }
  const absl::Duration wait = next_;
  next_ = std::min(kLongestDelay, std::max(kFirst, 2 * next_));
  const bool requested = shutdown->AwaitRequest(wait);
  attempt_began_ = MonotonicNow();
  return !requested;
}

}  // namespace tributary
