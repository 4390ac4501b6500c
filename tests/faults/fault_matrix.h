// Runs a job on real processes with one fault: a failpoint and what it does.
#ifndef TRIBUTARY_TESTS_FAULTS_FAULT_MATRIX_H_
#define TRIBUTARY_TESTS_FAULTS_FAULT_MATRIX_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

namespace tributary {

// Returns the names of all failpoints, W1 to W12 and S1 to S18, which
// common/base/failpoints.cc describes.
std::vector<std::string> AllFailpoints();

struct FaultCase {
  // Path of the tributary program with failpoints.
  std::string program;
  std::string model = "mlp";  // "mlp", "gpt" or "tables".
  std::string point;  // Name of the failpoint; empty for a run without faults.
  std::string action = "crash";  // "crash", "stop(5000)" or "error".
  // Determines the seed of the job, and in which process and at which pass the
  // failpoint acts.
  int64_t seed = 1;
  // True to set recovery.journal and disable checkpoints.
  bool replicas = false;
  int servers = 2;
  // With model "tables": SparseSpec.fixed_lag, whether most rows are on a disk,
  // and whether the job is in consistency mode `asynchronous`, in which the
  // ledger can be checked if no server fails.
  int fixed_lag = 0;
  bool disk = false;
  bool asynchronous = false;
};

struct FaultResult {
  // The first error of ProcessCluster::Run or CheckLedger, or OK.
  absl::Status status;
  std::string weights_sha256;
  // With model "tables": the digest of the file with all rows; without
  // checkpoints, only one is written, at the end.
  std::string rows_sha256;
  int actions = 0;  // Number of times that failpoints acted.
  int restarts = 0;
  int64_t steps_again = 0;  // Result of ProcessCluster::StepsAgain.
  // Result of ProcessCluster::recovery.
  absl::optional<absl::Duration> recovery;
  absl::Duration time;
};

// Runs the case in a new folder below `parent`, which is removed on success.
FaultResult RunFault(const FaultCase& fault, const std::string& parent);

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_FAULTS_FAULT_MATRIX_H_
