// The closing lines of a run.
#ifndef TRIBUTARY_DEPLOY_LAUNCHER_RUN_REPORT_H_
#define TRIBUTARY_DEPLOY_LAUNCHER_RUN_REPORT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// What summary.json says, for a person: final loss, evaluation, time, and where
// the model is. Lines for what the summary lacks are left out. `summary` is the
// file's text. DataLoss if it is not a JSON object.
absl::StatusOr<std::string> FormatRunReport(absl::string_view summary,
                                            const std::string& directory);

// The status that the run of `summary` ended with, for the last line of
// progress. `newest` is what was heard last, some steps before the end, or
// nothing at all: a server ends without waiting to be asked. Errors as above.
absl::StatusOr<StatusReply> FinalStatus(absl::string_view summary,
                                        const std::string& directory,
                                        StatusReply newest);

// Text as it may go to a terminal: control characters but line ends and tabs,
// and bytes that are not valid UTF-8, are written as \xNN.
std::string EscapeForTerminal(absl::string_view text);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCHER_RUN_REPORT_H_
