// A table of runs as text, for terminals.
#ifndef TRIBUTARY_DEPLOY_TOOLS_RUNS_RUN_TABLE_H_
#define TRIBUTARY_DEPLOY_TOOLS_RUNS_RUN_TABLE_H_

#include <string>
#include <vector>

#include "deploy/tools/runs/run_entry.h"

namespace tributary {

// Formats one line per run, below a heading: name, when the run began, state,
// step, losses, duration, and a column for each of the job's fields whose paths
// are in `fields`. Leaves out columns that are empty in all lines. If `width`
// is not 0, leaves out fields for which there is no room, and says in a last
// line how many. The text is safe to print on a terminal.
std::string FormatRuns(const std::vector<RunEntry>& runs,
                       const std::vector<std::string>& fields, int width);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_RUNS_RUN_TABLE_H_
