// The conformance scenarios: situations in which a worker is checked.
#ifndef TRIBUTARY_DEPLOY_TOOLS_CONFORMANCE_SCENARIOS_H_
#define TRIBUTARY_DEPLOY_TOOLS_CONFORMANCE_SCENARIOS_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "deploy/tools/conformance/fault.h"
#include "deploy/tools/conformance/scene.h"

namespace tributary {

struct Scenario {
  std::string name;
  std::string summary;  // Description for users, in a few words.
  // Runs the scenario of a conformance test. Returns the fault of the worker,
  // or nullopt if the worker behaved correctly. Returns an error if the
  // scenario could not run for a reason other than the worker, such as
  // Cancelled after a signal. Blocks for up to about twice Subject::time_limit.
  std::function<absl::StatusOr<std::optional<Fault>>(const Subject&)> run;
  // Returns true if the scenario can run with the job: the changes that the
  // scenario makes to the job must not contradict it. Null if the scenario can
  // run with every job.
  std::function<bool(const JobSpec&)> applies;
};

// Returns all scenarios of the conformance test, in the order in which they
// run.
std::vector<Scenario> AllScenarios();

// Writes a CSV data set to `folder`, and returns the text of the scenarios'
// default job, which trains an mlp on this data set. Returns the system's error
// if the data set cannot be written.
absl::StatusOr<std::string> ConformanceJob(const std::string& folder);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_CONFORMANCE_SCENARIOS_H_
