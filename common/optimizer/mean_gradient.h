// The optimizer of jobs whose update rule is that of a program: see
// ProgramRuleSpec in proto/job.proto.
#ifndef TRIBUTARY_COMMON_OPTIMIZER_MEAN_GRADIENT_H_
#define TRIBUTARY_COMMON_OPTIMIZER_MEAN_GRADIENT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace tributary {

class Optimizer;
class ProgramRuleSpec;

// Creates an optimizer whose new weights are the weights plus the gradient:
// from weights that are 0, it computes the mean gradient, to which the
// program's rule (see ProgramRule) is applied. The slots "state_0", "state_1",
// and so on, are the arrays that hold the state of that rule. Returns
// InvalidArgument for an invalid option. `path` is the path of the options in
// the job; error messages use it to name the field.
absl::StatusOr<std::unique_ptr<Optimizer>> MakeMeanGradient(
    const std::string& path, const ProgramRuleSpec& spec);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_OPTIMIZER_MEAN_GRADIENT_H_
