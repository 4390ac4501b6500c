// Time that nobody sets, for leases, heartbeats and waits. The wall clock jumps
// when somebody corrects it, and Abseil's waits with a timeout follow it.
#ifndef TRIBUTARY_COMMON_BASE_MONOTONIC_CLOCK_H_
#define TRIBUTARY_COMMON_BASE_MONOTONIC_CLOCK_H_

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace tributary {

// Time since some moment in the past. For differences only: it is no date, and
// another machine's is another.
absl::Time MonotonicNow();

// As mu->AwaitWithTimeout and mu->AwaitWithDeadline, by MonotonicNow.
bool AwaitFor(absl::Mutex* mu, const absl::Condition& condition,
              absl::Duration timeout) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
bool AwaitUntil(absl::Mutex* mu, const absl::Condition& condition,
                absl::Time deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_BASE_MONOTONIC_CLOCK_H_
