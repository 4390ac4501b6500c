#include "common/optimizer/option_checks.h"

#include "common/base/field_checks.h"
#include "common/base/status_macros.h"

namespace tributary {
namespace {

// The smallest epsilon that a job may set. Smaller values are 0 in float32 or
// have no effect beside any gradient.
constexpr double kMinEpsilon = 1e-30;

}  // namespace

absl::Status ValidateEpsilon(const std::string& path, double epsilon) {
  if (epsilon < kMinEpsilon) {
    return Error(path + ".epsilon", epsilon, " is not at least ", kMinEpsilon);
  }
  return Positive(path + ".epsilon", epsilon);
}

absl::Status DecoupledDecay::Validate() const {
  TRIBUTARY_RETURN_IF_ERROR(NotNegative(path + ".weight_decay", weight_decay));
  if (peak_learning_rate * weight_decay < 1) return absl::OkStatus();
  return Error(path + ".weight_decay", weight_decay,
               " times the learning rate ", peak_learning_rate,
               " is not below 1: every step would set the weights to 0");
}

absl::Status DecoupledDecay::ValidateFactor(const std::string& factor_path,
                                            double factor) const {
  if (peak_learning_rate * factor * weight_decay < 1) return absl::OkStatus();
  return Error(factor_path, factor, " times ", path, ".weight_decay ",
               weight_decay, " and the learning rate ", peak_learning_rate,
               " is not below 1: every step would set the weights to 0");
}

}  // namespace tributary
