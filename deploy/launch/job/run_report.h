// The report that is shown at the end of a run.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_JOB_RUN_REPORT_H_
#define TRIBUTARY_DEPLOY_LAUNCH_JOB_RUN_REPORT_H_

#include <string>

#include "nlohmann/json_fwd.hpp"
#include "proto/rendezvous.pb.h"

namespace tributary {

// Formats summary.json for the user: final loss, evaluation, time, the path of
// the model, and the digest of its weights. Omits lines for missing values.
// `summary` is the object in the file, and `directory` is the folder of the
// run.
std::string FormatRunReport(const nlohmann::ordered_json& summary,
                            const std::string& directory);

// Returns the final status of a run, for the last line of progress: `newest`,
// with the step, the loss and the evaluation that `summary` contains. `newest`
// is the last status received. It may be empty or some steps old, because a
// server ends without waiting for status queries.
StatusReply FinalStatus(const nlohmann::ordered_json& summary,
                        StatusReply newest);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_JOB_RUN_REPORT_H_
