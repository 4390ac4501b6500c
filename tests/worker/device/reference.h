// The operations of Device in float64, by the textbook: what the conformance
// suite compares with. Arguments and layouts are those of
// worker/device/device.h.
#ifndef TRIBUTARY_TESTS_WORKER_DEVICE_REFERENCE_H_
#define TRIBUTARY_TESTS_WORKER_DEVICE_REFERENCE_H_

#include <cstdint>
#include <vector>

#include "common/numerics/philox.h"
#include "worker/device/device.h"

namespace tributary::reference {

using Doubles = std::vector<double>;
using Integers = std::vector<int32_t>;

// Each element's absolute value: a sum of products of these is the magnitude
// that bounds the rounding of the sum.
Doubles Absolute(Doubles values);

// `bias` may be empty.
Doubles LinearForward(const LinearShape& shape, const Doubles& x,
                      const Doubles& weight, const Doubles& bias);
Doubles LinearBackwardInput(const LinearShape& shape, const Doubles& dy,
                            const Doubles& weight);
Doubles LinearBackwardWeight(const LinearShape& shape, const Doubles& x,
                             const Doubles& dy);
Doubles ColumnSums(int64_t rows, int64_t width, const Doubles& x);

Doubles ConvolutionForward(const ConvolutionShape& shape, const Doubles& x,
                           const Doubles& weight, const Doubles& bias);
Doubles ConvolutionBackwardInput(const ConvolutionShape& shape,
                                 const Doubles& dy, const Doubles& weight);
Doubles ConvolutionBackwardWeight(const ConvolutionShape& shape,
                                  const Doubles& x, const Doubles& dy);
Doubles ConvolutionBackwardBias(const ConvolutionShape& shape,
                                const Doubles& dy);

// The place within its input plane of each window's first maximum.
Integers MaxPoolPlaces(const PoolShape& shape, const Doubles& x);
Doubles AveragePoolForward(const PoolShape& shape, const Doubles& x);

Doubles GlobalAveragePoolForward(int64_t planes, int64_t pixels,
                                 const Doubles& x);

double Gelu(double x);
// Factor of element i: 1 / (1 - rate) or 0.
double DropoutFactor(const RandomStream& stream, float rate, uint64_t i);

Doubles LayerNormForward(int64_t rows, int64_t width, const Doubles& x,
                         const Doubles& scale, const Doubles& shift);

// Of each channel; the variance is the biased one.
Doubles BatchNormMean(const BatchNormShape& shape, const Doubles& x);
Doubles BatchNormVariance(const BatchNormShape& shape, const Doubles& x);
// `residual` may be empty.
Doubles BatchNormEvaluate(const BatchNormShape& shape, const Doubles& x,
                          const Doubles& scale, const Doubles& shift,
                          const Doubles& mean, const Doubles& variance,
                          const Doubles& residual);

Doubles AttentionForward(const AttentionShape& shape, const Doubles& qkv,
                         const RandomStream& stream, float rate);

// Sums over the rows.
double SoftmaxCrossEntropy(int64_t rows, int64_t classes, const Doubles& logits,
                           const Integers& labels);
double MeanSquaredError(int64_t rows, int64_t width, const Doubles& x,
                        const Doubles& target);

}  // namespace tributary::reference

#endif  // TRIBUTARY_TESTS_WORKER_DEVICE_REFERENCE_H_
