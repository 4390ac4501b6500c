// The scenarios that a worker is checked in.
#ifndef TRIBUTARY_DEPLOY_CONFORMANCE_SCENARIOS_H_
#define TRIBUTARY_DEPLOY_CONFORMANCE_SCENARIOS_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "deploy/conformance/fault.h"
#include "deploy/conformance/scene.h"

namespace tributary {

struct Scenario {
  std::string name;
  std::string summary;  // What happens, in a few words.
  // Runs the scenario. Returns the worker's fault, or nullopt if it has passed;
  // or an error that is not the worker's. Blocks for at most about twice the
  // time limit.
  std::function<absl::StatusOr<std::optional<Fault>>(const Subject&)> run;
};

// Returns all scenarios, in the order in which they run.
std::vector<Scenario> AllScenarios();

// Returns the job that is used unless the user passes one: an mlp on a table
// that is written to `folder`. Returns the system's error if it cannot be
// written.
absl::StatusOr<JobSpec> ConformanceJob(const std::string& folder);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_CONFORMANCE_SCENARIOS_H_
