// The normal distribution, for random numbers with the same bits everywhere.
#ifndef TRIBUTARY_COMMON_NUMERICS_NORMAL_QUANTILE_H_
#define TRIBUTARY_COMMON_NUMERICS_NORMAL_QUANTILE_H_

#include <cstdint>

namespace tributary {

// Returns the quantile function of the standard normal distribution at (bits +
// 1/2) / 2^32, accurate to about 16 digits. Source: Wichura, "Algorithm AS 241:
// the percentage points of the normal distribution", Applied Statistics 37
// (1988). Uses only operations that IEEE 754 rounds correctly, never the math
// library, whose last bits differ between versions and processors.
double NormalQuantile(uint32_t bits);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_NUMERICS_NORMAL_QUANTILE_H_
