#include "common/optimizer/power.h"

#include <cmath>

namespace tributary {

double Power(double base, double exponent) {
  double result = 1;
  const double whole = std::floor(exponent);
  double square = base;
  for (double rest = whole; rest > 0; rest = std::floor(rest / 2)) {
    if (std::fmod(rest, 2) == 1) result *= square;
    square *= square;
  }
  // The binary digits of the fraction, which are exact: 1/2, 1/4, ...
  double root = base;
  for (double fraction = exponent - whole; fraction > 0;) {
    root = std::sqrt(root);
    fraction *= 2;
    if (fraction >= 1) {
      result *= root;
      fraction -= 1;
    }
  }
  return result;
}

}  // namespace tributary
