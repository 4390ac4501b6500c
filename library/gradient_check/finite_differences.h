// Compares a gradient with finite differences.
#ifndef TRIBUTARY_LIBRARY_GRADIENT_CHECK_FINITE_DIFFERENCES_H_
#define TRIBUTARY_LIBRARY_GRADIENT_CHECK_FINITE_DIFFERENCES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace tributary {

// The gradient of the sum of outputs[i] * factors[i] with respect to variables,
// in float32. The comparison changes variables and restores them.
class FiniteDifferences {
 public:
  // Computes the outputs from the variables.
  using Function = std::function<std::vector<double>()>;

  // At most `elements` elements of each variable are compared. See
  // GradientCheckOptions for `tolerance`.
  FiniteDifferences(Function function, std::vector<double> factors,
                    double tolerance, int64_t elements);

  // Compares `gradient`, [size], with the finite differences of `variable`,
  // [size]. Returns InvalidArgument if they differ. `name` is the name of the
  // variable, and `place` returns the name of an element, in the error.
  absl::Status Compare(const std::string& name,
                       const std::function<std::string(int64_t element)>& place,
                       int64_t size, const float* gradient,
                       float* variable) const;

 private:
  struct Quotient {
    double central = 0;
    // The quotient above the variable, minus the one below it.
    double asymmetry = 0;
    // Bound of the error of `central` from rounding in float32.
    double noise = 0;
  };
  enum class Verdict { kRight, kWrong, kUnknown };

  Quotient QuotientOf(float* variable, double step) const;
  // Decides whether `computed` is the derivative. `largest` is the largest
  // derivative of the tensor. Sets `expected` to the derivative if it is wrong.
  Verdict Judge(float* variable, double computed, double largest,
                double* expected) const;

  const Function function_;
  const std::vector<double> factors_;
  const double tolerance_;
  const int64_t elements_;
};

}  // namespace tributary

#endif  // TRIBUTARY_LIBRARY_GRADIENT_CHECK_FINITE_DIFFERENCES_H_
