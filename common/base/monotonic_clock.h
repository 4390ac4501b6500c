// The monotonic clock, for leases, heartbeats and waits. Abseil's waits with a
// timeout are not used, because they follow the wall clock, which jumps when it
// is adjusted. The simulator replaces all functions of this file; see
// runtime.h.
#ifndef TRIBUTARY_COMMON_BASE_MONOTONIC_CLOCK_H_
#define TRIBUTARY_COMMON_BASE_MONOTONIC_CLOCK_H_

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace tributary {

// Returns the time since an unspecified moment in the past. Only differences
// are meaningful, and only on one machine.
absl::Time MonotonicNow();

// Like mu->Await, but also works in a simulation (see Runtime).
void Await(absl::Mutex* mu, const absl::Condition& condition)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
// These functions are like mu->AwaitWithTimeout and mu->AwaitWithDeadline, but
// measure time with MonotonicNow. They return true if the condition holds, and
// false after the timeout or the deadline.
bool AwaitFor(absl::Mutex* mu, const absl::Condition& condition,
              absl::Duration timeout) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
bool AwaitUntil(absl::Mutex* mu, const absl::Condition& condition,
                absl::Time deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);

// Like absl::SleepFor, but measures time with MonotonicNow.
void Sleep(absl::Duration duration);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_BASE_MONOTONIC_CLOCK_H_
