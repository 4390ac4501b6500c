// Places in the protocol where tests make a process die, stand still or fail.
#ifndef TRIBUTARY_COMMON_BASE_FAILPOINT_H_
#define TRIBUTARY_COMMON_BASE_FAILPOINT_H_

#include <cstdint>
#include <cstdlib>

#include "absl/status/status.h"

namespace tributary {

// Defined only in programs that link //common/base:failpoints, which are tests'
// own: everywhere else these are null, and what follows costs a comparison.
absl::Status HitFailpoint(const char* point) __attribute__((weak));
void RecordInLedger(int64_t attempt, int chunk, int64_t step,
                    int64_t sample_count) __attribute__((weak));

// To be called where the protocol comes to `point`: the names are listed in
// failpoints.cc. An error is to be treated as one of whatever comes next.
inline absl::Status Failpoint(const char* point) {
  return HitFailpoint == nullptr ? absl::OkStatus() : HitFailpoint(point);
}

// The same where nothing can fail, short of a broken machine: an error ends the
// process.
inline void FailpointOrDie(const char* point) {
  if (!Failpoint(point).ok()) std::abort();
}

// An update was made: `step` is applied to `chunk`, with gradients of so many
// samples.
inline void LedgerEntry(int64_t attempt, int chunk, int64_t step,
                        int64_t sample_count) {
  if (RecordInLedger != nullptr) {
    RecordInLedger(attempt, chunk, step, sample_count);
  }
}

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_BASE_FAILPOINT_H_
