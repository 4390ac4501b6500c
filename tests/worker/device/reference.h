// Reference implementation of the operations of Device in float64, following
// the defining formulas. The conformance suite compares devices with it. See
// the headers in worker/device/ops for arguments and layouts.
#ifndef TRIBUTARY_TESTS_WORKER_DEVICE_REFERENCE_H_
#define TRIBUTARY_TESTS_WORKER_DEVICE_REFERENCE_H_

#include <cstdint>
#include <vector>

#include "common/numerics/philox.h"
#include "worker/device/device.h"

namespace tributary::reference {

using Doubles = std::vector<double>;
using Integers = std::vector<int32_t>;

// Returns the absolute value of each element. A sum of products of absolute
// values is the magnitude that bounds the rounding error of the sum.
Doubles Absolute(Doubles values);

// Compute y = x weight^T + bias, and the gradients of x and of the weight.
// `bias` may be empty, which stands for 0.
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

// Returns, for each window, the index of its first maximum within the input
// plane.
Integers MaxPoolPlaces(const PoolShape& shape, const Doubles& x);
Doubles AveragePoolForward(const PoolShape& shape, const Doubles& x);

Doubles GlobalAveragePoolForward(int64_t planes, int64_t pixels,
                                 const Doubles& x);

// X[rows, count, width] with the results of InteractionOps.
Doubles SumBlocks(int64_t rows, int64_t count, int64_t width, const Doubles& x,
                  const Doubles& bias);
Doubles PairDots(int64_t rows, int64_t count, int64_t width, const Doubles& x);
Doubles PairSum(int64_t rows, int64_t count, int64_t width, const Doubles& x);

double Gelu(double x);
double ExactGelu(double x);
double Sigmoid(double x);
double Silu(double x);
double LeakyRelu(double x, double alpha);
double Elu(double x, double alpha);
double Softplus(double x);
// Returns the factor by which dropout multiplies element i: 1 / (1 - rate) or
// 0.
double DropoutFactor(const RandomStream& stream, float rate, uint64_t i);

Doubles LayerNormForward(int64_t rows, int64_t width, const Doubles& x,
                         const Doubles& scale, const Doubles& shift);

// Return the mean and the (biased) variance of each channel.
Doubles BatchNormMean(const BatchNormShape& shape, const Doubles& x);
Doubles BatchNormVariance(const BatchNormShape& shape, const Doubles& x);
// Normalizes `x` with the given mean and variance. `residual` may be empty,
// which stands for 0.
Doubles BatchNormEvaluate(const BatchNormShape& shape, const Doubles& x,
                          const Doubles& scale, const Doubles& shift,
                          const Doubles& mean, const Doubles& variance,
                          const Doubles& residual);

// `lengths` may be empty if all positions exist.
Doubles AttentionForward(const AttentionShape& shape, const Doubles& qkv,
                         const RandomStream& stream, float rate,
                         const Integers& lengths = {});

// Return the sum of the losses of all rows.
double SoftmaxCrossEntropy(int64_t rows, int64_t classes, const Doubles& logits,
                           const Integers& labels, double smoothing = 0,
                           int64_t padding = 0);
double MeanSquaredError(int64_t rows, int64_t width, const Doubles& x,
                        const Doubles& target);
// Rows with the label -1 have no loss.
double BinaryCrossEntropy(const Doubles& logits, const Integers& labels);

}  // namespace tributary::reference

#endif  // TRIBUTARY_TESTS_WORKER_DEVICE_REFERENCE_H_
