// Lists, selects and sorts runs.
#ifndef TRIBUTARY_DEPLOY_TOOLS_RUNS_RUN_LISTING_H_
#define TRIBUTARY_DEPLOY_TOOLS_RUNS_RUN_LISTING_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "deploy/tools/runs/run_entry.h"
#include "deploy/tools/runs/run_folders.h"
#include "deploy/tools/status/run_address.h"

namespace tributary {

// Returns the entries of all runs in `folders`. Asks the coordinators of
// running jobs for their status, and waits for the replies until `timeout` has
// passed.
std::vector<RunEntry> ListRuns(RunFolders* folders,
                               std::shared_ptr<const RunAddressRules> rules,
                               absl::Duration timeout);

// Which runs to show. An empty or null condition is true for every run.
struct RunConditions {
  std::string name;   // Text that the run's name contains.
  std::string state;  // "running" (any phase of a running job) or a state.
  // Fields of the job and their values; see MatchesField.
  std::vector<JobField> fields;
};
// Parses "learning_rate=0.1". Returns InvalidArgument if `text` has no "=".
absl::StatusOr<JobField> ParseFieldCondition(const std::string& text);
// Removes the entries that do not meet all conditions. A condition on a field
// names its path, such as "optimizer.adamw.learning_rate", or the end of the
// path, such as "learning_rate". Numbers are compared as numbers, and text may
// be given without its quotation marks.
void SelectRuns(const RunConditions& conditions, std::vector<RunEntry>* runs);

// The orders for SortRuns: "date" (running jobs first, then the run that began
// last), "name", "loss" and "evaluation" (the smallest loss first), "accuracy"
// (the largest first), "steps" and "time" (the most first).
std::vector<std::string> RunOrders();
// Sorts by one of RunOrders. Runs whose value is not known come last.
void SortRuns(const std::string& order, std::vector<RunEntry>* runs);

// Returns the paths of the fields in which the jobs of the runs differ, in the
// order of the job file. Leaves out the names and output folders of jobs, which
// nearly always differ.
std::vector<std::string> DifferingFields(const std::vector<RunEntry>& runs);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_RUNS_RUN_LISTING_H_
