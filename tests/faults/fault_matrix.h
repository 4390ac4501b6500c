// Every failpoint times every action, each in a run of real processes.
#ifndef TRIBUTARY_TESTS_FAULTS_FAULT_MATRIX_H_
#define TRIBUTARY_TESTS_FAULTS_FAULT_MATRIX_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

namespace tributary {

// W1 to W12, S1 to S18; see common/base/failpoints.cc.
std::vector<std::string> AllFailpoints();

struct FaultCase {
  std::string program;
  std::string model = "mlp";     // Or gpt.
  std::string point;             // Empty: an undisturbed run.
  std::string action = "crash";  // Or "stop(5000)", "error".
  // Varies the job's seed, which process is hit, and when.
  int64_t seed = 1;
  // With recovery.journal, and without checkpoints.
  bool journal = false;
  int servers = 2;
};

struct FaultResult {
  absl::Status status;  // Of the run, and of its ledger.
  std::string weights_sha256;
  int actions = 0;  // Of failpoints.
  int restarts = 0;
  int64_t steps_again = 0;  // See ProcessCluster::StepsAgain.
  absl::optional<absl::Duration> recovery;
  absl::Duration time;
};

// Runs it in a new folder below `parent`, which is removed if all went well.
FaultResult RunFault(const FaultCase& fault, const std::string& parent);

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_FAULTS_FAULT_MATRIX_H_
