#include "library/gradient_check/finite_differences.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tributary {
namespace {

// A large first step, because outputs are rounded to float32. If the function
// is not smooth within a step, smaller steps are tried.
constexpr double kFirstStep = 1.0 / 32;
constexpr double kSmallestStep = 1.0 / 32768;
constexpr double kStepRatio = 1.0 / 8;

// Bound of the relative error of an output that is a sum of some hundred
// products in float32.
constexpr double kRounding = 0x1p-21;

}  // namespace

FiniteDifferences::FiniteDifferences(Function function,
                                     std::vector<double> factors,
                                     double tolerance, int64_t elements)
    : function_(std::move(function)),
      factors_(std::move(factors)),
      tolerance_(tolerance),
      elements_(std::max<int64_t>(elements, 1)) {}

FiniteDifferences::Quotient FiniteDifferences::QuotientOf(float* variable,
                                                          double step) const {
  const float kept = *variable;
  const auto above = static_cast<float>(kept + step);
  const auto below = static_cast<float>(kept - step);
  const std::vector<double> middle = function_();
  *variable = above;
  const std::vector<double> high = function_();
  *variable = below;
  const std::vector<double> low = function_();
  *variable = kept;
  double upper = 0;
  double lower = 0;
  double rounding = 0;
  for (size_t i = 0; i < factors_.size(); ++i) {
    // Outputs that do not depend on the variable have no error.
    if (high[i] == low[i] && high[i] == middle[i]) continue;
    upper += factors_[i] * (high[i] - middle[i]);
    lower += factors_[i] * (middle[i] - low[i]);
    rounding += std::abs(factors_[i]) * (std::abs(high[i]) + std::abs(low[i])) *
                kRounding;
  }
  const double width = static_cast<double>(above) - below;
  return {(upper + lower) / width,
          upper / (static_cast<double>(above) - kept) -
              lower / (static_cast<double>(kept) - below),
          rounding / width};
}

FiniteDifferences::Verdict FiniteDifferences::Judge(float* variable,
                                                    double computed,
                                                    double largest,
                                                    double* expected) const {
  for (double step = kFirstStep; step >= kSmallestStep; step *= kStepRatio) {
    const Quotient whole = QuotientOf(variable, step);
    const Quotient half = QuotientOf(variable, step / 2);
    // Richardson's extrapolation.
    const double extrapolated = (4 * half.central - whole.central) / 3;
    const double noise = whole.noise + 2 * half.noise;
    const double accepted = tolerance_ * largest + noise;
    if (std::abs(computed - extrapolated) <= accepted ||
        std::abs(computed - half.central) <= accepted) {
      return Verdict::kRight;
    }
    // Where the function is smooth, the central quotients are nearly equal, and
    // the asymmetry is proportional to the step. With a kink at the variable,
    // the asymmetry is the same for all steps; with a kink further away, the
    // central quotients differ.
    const double smooth = tolerance_ / 4 * largest + noise;
    if (std::abs(whole.central - half.central) <= smooth &&
        std::abs(whole.asymmetry - 2 * half.asymmetry) <= 2 * smooth) {
      *expected = extrapolated;
      return Verdict::kWrong;
    }
  }
  return Verdict::kUnknown;
}

absl::Status FiniteDifferences::Compare(
    const std::string& name,
    const std::function<std::string(int64_t element)>& place, int64_t size,
    const float* gradient, float* variable) const {
  const int64_t compared = std::min(size, elements_);
  // Spread over the whole tensor.
  const auto element_of = [&](int64_t i) { return i * size / compared; };
  double largest = 0;
  for (int64_t i = 0; i < compared; ++i) {
    const int64_t element = element_of(i);
    if (!std::isfinite(gradient[element])) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the gradient of ", name, ", ", place(element), ", is ",
          gradient[element], ": Backward has not written it, or the loss is ",
          "not finite"));
    }
    largest = std::max(
        largest, std::abs(QuotientOf(variable + element, kFirstStep).central));
  }
  int64_t wrong = 0;
  int64_t unknown = 0;
  std::string first;
  for (int64_t i = 0; i < compared; ++i) {
    const int64_t element = element_of(i);
    double expected = 0;
    const Verdict verdict =
        Judge(variable + element, gradient[element], largest, &expected);
    unknown += verdict == Verdict::kUnknown ? 1 : 0;
    if (verdict != Verdict::kWrong) continue;
    if (wrong++ == 0) {
      first = absl::StrFormat(
          "the gradient of %s, %s, is %.6g, but the finite difference is %.6g",
          name, place(element), gradient[element], expected);
    }
  }
  if (wrong > 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        first, " (", wrong, " of ", compared, " elements differ)"));
  }
  if (unknown == compared && compared > 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the gradient of ", name,
        " cannot be compared: the function has kinks "
        "or jumps everywhere, or its results are not deterministic"));
  }
  return absl::OkStatus();
}

}  // namespace tributary
