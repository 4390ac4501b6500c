// Compares the result of a worker with the result of the built-in worker.
#ifndef TRIBUTARY_DEPLOY_TOOLS_CONFORMANCE_RESULT_COMPARISON_H_
#define TRIBUTARY_DEPLOY_TOOLS_CONFORMANCE_RESULT_COMPARISON_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "deploy/tools/conformance/cluster.h"
#include "deploy/tools/conformance/fault.h"
#include "proto/job.pb.h"

namespace tributary {

// Weights by name of the parameter.
using NamedWeights = std::map<std::string, std::vector<float>>;

// Compares the losses, the final weights and the evaluation of two runs of
// `job`, a result of ResolveJob. The runs began with the weights `initial`.
// `comparable_losses` is nullopt if the result does not depend on timing.
// Otherwise it is the number of steps, counted from the start, whose losses do
// not depend on timing: only the losses of these steps must be equal, the
// evaluation must be similar, and the weights are not compared. Returns the
// first difference that rounding cannot explain, or nullopt if there is none.
std::optional<Fault> CompareResults(const JobSpec& job,
                                    std::optional<size_t> comparable_losses,
                                    const NamedWeights& initial,
                                    const RunResult& expected,
                                    const RunResult& actual);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_CONFORMANCE_RESULT_COMPARISON_H_
