// The report that is shown at the end of a run.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_JOB_RUN_REPORT_H_
#define TRIBUTARY_DEPLOY_LAUNCH_JOB_RUN_REPORT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// Formats summary.json for the user: final loss, evaluation, time, and the path
// of the model. Omits lines for missing values. `summary` is the text of the
// file, and `directory` is the folder of the run. Returns DataLoss if `summary`
// is not a JSON object.
absl::StatusOr<std::string> FormatRunReport(absl::string_view summary,
                                            const std::string& directory);

// Returns the final status of a run, for the last line of progress: `newest`,
// with the step, the loss and the evaluation that `summary` contains. `newest`
// is the last status received. It may be empty or some steps old, because a
// server ends without waiting for status queries. Returns the same errors as
// FormatRunReport.
absl::StatusOr<StatusReply> FinalStatus(absl::string_view summary,
                                        const std::string& directory,
                                        StatusReply newest);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_JOB_RUN_REPORT_H_
