// The record of the samples that workers computed gradients from.
#ifndef TRIBUTARY_TESTS_FAULTS_SAMPLE_LEDGER_H_
#define TRIBUTARY_TESTS_FAULTS_SAMPLE_LEDGER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace tributary {

// The job that a sample ledger belongs to. All samples of its data differ, and
// are the same in every epoch.
struct SampleLedgerJob {
  int64_t steps = 0;
  // Samples in an epoch.
  int64_t samples = 0;
  int64_t global_batch = 0;
  int micro_batches = 0;
};

// Checks the ledger at `path`, which common/base/failpoints.cc describes:
// - whoever computed a micro-batch of a step, and however often, computed it
//   from the same samples;
// - each complete epoch has each sample exactly once;
// - the last epoch, if it is not complete, has no sample twice.
// Together with ProcessCluster::CheckLedger, which checks that each step was
// applied exactly once, this shows that each sample was used exactly once in
// each epoch. Returns OK, or an error that describes the first violation.
absl::Status CheckSampleLedger(const std::string& path,
                               const SampleLedgerJob& job);

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_FAULTS_SAMPLE_LEDGER_H_
