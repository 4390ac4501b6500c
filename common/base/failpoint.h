// Points in the protocol at which tests make a process crash, stop or fail.
#ifndef TRIBUTARY_COMMON_BASE_FAILPOINT_H_
#define TRIBUTARY_COMMON_BASE_FAILPOINT_H_

#include <cstdint>
#include <cstdlib>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tributary {

// Hooks for tests. Only test programs, which link //common/base:failpoints,
// define these functions. In all other programs their addresses are null, and
// each of the inline functions of this file costs one comparison.
absl::Status HitFailpoint(const char* point) __attribute__((weak));
void RecordInLedger(int64_t attempt, int chunk, int64_t step,
                    int64_t sample_count) __attribute__((weak));
void RecordSamplesInLedger(int64_t step, int micro_batch, int64_t samples,
                           absl::string_view inputs) __attribute__((weak));

// Marks a place in the code, named `point`, at which a test can inject a fault;
// failpoints.cc lists the names of all points. Returns OK unless a test has set
// an error for the point. The caller must treat this error as an error of the
// operation that follows. A test can also make the process crash or stop here.
inline absl::Status Failpoint(const char* point) {
  return HitFailpoint == nullptr ? absl::OkStatus() : HitFailpoint(point);
}

// Marks a place in the code, named `point`, at which a test can inject a fault
// although no operation can fail there. An injected error aborts the process.
inline void FailpointOrDie(const char* point) {
  if (!Failpoint(point).ok()) std::abort();
}

// Appends an entry to the ledger, a file that tests check. The entry states
// that, in attempt `attempt` (one run of the protocol), a server or worker has
// applied step `step` to chunk `chunk`, with the gradients of `sample_count`
// samples. Does nothing outside of tests.
inline void LedgerEntry(int64_t attempt, int chunk, int64_t step,
                        int64_t sample_count) {
  if (RecordInLedger != nullptr) {
    RecordInLedger(attempt, chunk, step, sample_count);
  }
}

// Appends an entry to the sample ledger, a file that tests check. The entry
// states that a worker computes micro-batch `micro_batch` of step `step` from
// `samples` samples. `inputs` contains the bytes of the inputs of all samples,
// one sample after the other. Does nothing outside of tests.
inline void SampleLedgerEntry(int64_t step, int micro_batch, int64_t samples,
                              absl::string_view inputs) {
  if (RecordSamplesInLedger != nullptr) {
    RecordSamplesInLedger(step, micro_batch, samples, inputs);
  }
}

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_BASE_FAILPOINT_H_
