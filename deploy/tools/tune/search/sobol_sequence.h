#ifndef TRIBUTARY_DEPLOY_TOOLS_TUNE_SEARCH_SOBOL_SEQUENCE_H_
#define TRIBUTARY_DEPLOY_TOOLS_TUNE_SEARCH_SOBOL_SEQUENCE_H_

#include <cstdint>

namespace tributary {

// Sobol's sequence (Sobol, 1967): points whose coordinates fill the unit cube
// evenly. Uses the direction numbers of Joe and Kuo, 2008, and the order of
// Gray codes (Antonov and Saleev, 1979). Stateless.
class SobolSequence {
 public:
  static constexpr int kMostDimensions = 21;

  // Returns coordinate `dimension`, in [0, kMostDimensions), of point number
  // `index`, as a fraction of 2^32. Point 0 is the origin.
  static uint32_t Coordinate(uint32_t index, int dimension);
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_TUNE_SEARCH_SOBOL_SEQUENCE_H_
