// Combinations of failpoints and actions, each in a run of real processes.
#ifndef TRIBUTARY_TESTS_FAULTS_FAULT_MATRIX_H_
#define TRIBUTARY_TESTS_FAULTS_FAULT_MATRIX_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

namespace tributary {

// Returns W1 to W12 and S1 to S18; see common/base/failpoints.cc.
std::vector<std::string> AllFailpoints();

struct FaultCase {
  std::string program;
  std::string model = "mlp";     // "mlp" or "gpt".
  std::string point;             // Failpoint; empty: an undisturbed run.
  std::string action = "crash";  // "crash", "stop(5000)" or "error".
  // Determines the job's seed, and which process acts when.
  int64_t seed = 1;
  // Sets recovery.journal and disables checkpoints.
  bool journal = false;
  int servers = 2;
};

struct FaultResult {
  absl::Status status;  // Status of the run and of its ledger.
  std::string weights_sha256;
  int actions = 0;  // Number of times that failpoints acted.
  int restarts = 0;
  int64_t steps_again = 0;  // See ProcessCluster::StepsAgain.
  absl::optional<absl::Duration> recovery;
  absl::Duration time;
};

// Runs the case in a new folder below `parent`, which is removed on success.
FaultResult RunFault(const FaultCase& fault, const std::string& parent);

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_FAULTS_FAULT_MATRIX_H_
