#ifndef TRIBUTARY_COMMON_OPTIMIZER_POWER_H_
#define TRIBUTARY_COMMON_OPTIMIZER_POWER_H_

namespace tributary {

// Returns base^exponent, for `base` and `exponent` of at least 0. Gives the
// same bits on every machine: it uses only operations that are exactly rounded
// everywhere, products and square roots, because the C library's pow may differ
// in its last bit between processors.
double Power(double base, double exponent);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_OPTIMIZER_POWER_H_
