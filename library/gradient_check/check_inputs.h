// What the gradient checks of layers, networks and losses have in common.
#ifndef TRIBUTARY_LIBRARY_GRADIENT_CHECK_CHECK_INPUTS_H_
#define TRIBUTARY_LIBRARY_GRADIENT_CHECK_CHECK_INPUTS_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tributary/gradient_check.h"

namespace tributary {

// Fills results beforehand, so that elements that are not written are found.
inline constexpr float kUnwritten = std::numeric_limits<float>::quiet_NaN();

// The numbers of the random streams of inputs, parameters (the first of each),
// factors of outputs, and targets.
inline constexpr uint32_t kInputStream = 0, kWeightStream = 100,
                          kFactorStream = 1000000, kTargetStream = 1000001;

// Returns `size` numbers, uniformly distributed in [-range, range).
std::vector<float> UniformNumbers(uint64_t seed, uint32_t stream, int64_t size,
                                  double range);
// Returns `size` integers, uniformly distributed in [0, bound).
std::vector<int32_t> UniformIntegers(uint64_t seed, uint32_t stream,
                                     int64_t size, int64_t bound);
// Adds random numbers in [-0.5, 0.5) to initial values, which are often all 0
// or all 1.
void Disturb(uint64_t seed, uint32_t stream, int64_t size, float* values);

// Name elements of tensors in errors. A tensor of samples has `per_sample`
// elements for each sample.
std::string ElementName(int64_t element);
std::function<std::string(int64_t)> ElementsOfSamples(int64_t per_sample);

// Returns InvalidArgument if an option is out of range.
absl::Status CheckOptions(const GradientCheckOptions& options);
// Returns the error for a layer that reads tokens without
// GradientCheckOptions::tokens.
absl::Status MissingTokens();

}  // namespace tributary

#endif  // TRIBUTARY_LIBRARY_GRADIENT_CHECK_CHECK_INPUTS_H_
