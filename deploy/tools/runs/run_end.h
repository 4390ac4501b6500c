// How a run ended, for the user.
#ifndef TRIBUTARY_DEPLOY_TOOLS_RUNS_RUN_END_H_
#define TRIBUTARY_DEPLOY_TOOLS_RUNS_RUN_END_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "deploy/tools/runs/run_record.h"
#include "nlohmann/json_fwd.hpp"

namespace tributary {

// Says how the job of `record`, which has a summary, ended. If it is done, the
// lines of FormatRunReport follow. Each line ends with a line end. The text is
// safe to print on a terminal.
std::string FormatEnd(const RunRecord& record);

// Returns the same as a JSON object: "phase" as in `tributary status --json` of
// a running job, the members of EntryJson, and "summary", the contents of
// summary.json.
nlohmann::ordered_json EndJson(const RunRecord& record);

// Returns OK if the job of `record`, which has a summary, is done or was
// stopped; FailedPrecondition, with the reason, if it has failed.
absl::Status CheckEnd(const RunRecord& record);

// Returns the error that there is neither a server nor a summary:
// FailedPrecondition if the run was interrupted, with the step and the command
// that continues it; otherwise `reason`, the status of AddressOfRun.
absl::Status WithoutEnd(const RunRecord& record, const absl::Status& reason);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_RUNS_RUN_END_H_
