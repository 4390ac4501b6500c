// Checks of options that several optimizers have. As in field_checks.h, each
// returns OK, or InvalidArgument with a message that names the field.
#ifndef TRIBUTARY_COMMON_OPTIMIZER_OPTION_CHECKS_H_
#define TRIBUTARY_COMMON_OPTIMIZER_OPTION_CHECKS_H_

#include <string>

#include "absl/status/status.h"

namespace tributary {

// Checks the number that an optimizer adds to a denominator. `path` is the path
// of the optimizer's options in the job.
absl::Status ValidateEpsilon(const std::string& path, double epsilon);

// A decoupled weight decay, which multiplies the weights by 1 - learning_rate *
// weight_decay in each step. The product must be below 1.
struct DecoupledDecay {
  std::string path;  // The path of the optimizer's options in the job.
  double peak_learning_rate;
  double weight_decay;

  absl::Status Validate() const;
  // Checks the learning_rate_factor of a group of parameters, the field
  // `factor_path`.
  absl::Status ValidateFactor(const std::string& factor_path,
                              double factor) const;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_OPTIMIZER_OPTION_CHECKS_H_
