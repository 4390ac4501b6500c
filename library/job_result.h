// Reads the result of a Job from the files of its run.
#ifndef TRIBUTARY_LIBRARY_JOB_RESULT_H_
#define TRIBUTARY_LIBRARY_JOB_RESULT_H_

#include <string>

#include "absl/status/statusor.h"
#include "tributary/job.h"

namespace tributary {

// Reads summary.json and the final model in the folder of a run that is done.
// Returns the system's error, with the path, if a file cannot be read, and
// DataLoss if its contents are damaged.
absl::StatusOr<Job::Result> ReadJobResult(const std::string& folder);

}  // namespace tributary

#endif  // TRIBUTARY_LIBRARY_JOB_RESULT_H_
