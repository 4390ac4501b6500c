// Points in the protocol at which tests make a process crash, stop or fail.
#ifndef TRIBUTARY_COMMON_BASE_FAILPOINT_H_
#define TRIBUTARY_COMMON_BASE_FAILPOINT_H_

#include <cstdint>
#include <cstdlib>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tributary {

// These functions are defined only in test programs, which link
// //common/base:failpoints. In other programs they are null, and each of the
// functions below costs one comparison.
absl::Status HitFailpoint(const char* point) __attribute__((weak));
void RecordInLedger(int64_t attempt, int chunk, int64_t step,
                    int64_t sample_count) __attribute__((weak));
void RecordSamplesInLedger(int64_t step, int micro_batch, int64_t samples,
                           absl::string_view inputs) __attribute__((weak));

// Marks the place where the protocol reaches `point`; failpoints.cc lists the
// names of all points. Returns OK unless a test has set an error for the point.
// The caller must treat this error as an error of the operation that follows. A
// test can also make the process crash or stop here.
inline absl::Status Failpoint(const char* point) {
  return HitFailpoint == nullptr ? absl::OkStatus() : HitFailpoint(point);
}

// Like Failpoint, for points where no operation can fail: an error aborts the
// process.
inline void FailpointOrDie(const char* point) {
  if (!Failpoint(point).ok()) std::abort();
}

// Records, for tests, that `attempt` applied `step` to `chunk` with the
// gradients of `sample_count` samples.
inline void LedgerEntry(int64_t attempt, int chunk, int64_t step,
                        int64_t sample_count) {
  if (RecordInLedger != nullptr) {
    RecordInLedger(attempt, chunk, step, sample_count);
  }
}

// Records, for tests, that a worker computes a micro-batch of `step` from
// `samples` samples. `inputs` are the bytes of their inputs, sample by sample.
inline void SampleLedgerEntry(int64_t step, int micro_batch, int64_t samples,
                              absl::string_view inputs) {
  if (RecordSamplesInLedger != nullptr) {
    RecordSamplesInLedger(step, micro_batch, samples, inputs);
  }
}

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_BASE_FAILPOINT_H_
