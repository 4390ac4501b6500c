// The monotonic clock, for leases, heartbeats and waits. Use these functions
// instead of Abseil's waits with a timeout, which follow the wall clock and are
// wrong when that clock is adjusted. The simulator, a test program that runs
// whole clusters in virtual time, replaces all functions of this file; see
// runtime.h.
#ifndef TRIBUTARY_COMMON_BASE_MONOTONIC_CLOCK_H_
#define TRIBUTARY_COMMON_BASE_MONOTONIC_CLOCK_H_

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace tributary {

// Returns the time of the monotonic clock, whose origin is unspecified. Only
// the difference between two results on the same machine is meaningful.
absl::Time MonotonicNow();

// Like mu->Await, but also works in a simulation in virtual time (see Runtime).
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
