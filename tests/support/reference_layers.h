// The layers' forward passes in float64, made of the reference operations in
// tests/worker/device/reference.h.
#ifndef TRIBUTARY_TESTS_SUPPORT_REFERENCE_LAYERS_H_
#define TRIBUTARY_TESTS_SUPPORT_REFERENCE_LAYERS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "common/numerics/philox.h"
#include "worker/device/device.h"

namespace tributary {

using Values = std::vector<double>;

// Computes the output of a layer from its inputs and its weights, in the order
// of its parameters.
using ReferenceLayer = std::function<Values(
    const std::vector<Values>& inputs, const std::vector<Values>& weights)>;

// The layer has no bias if `weights` has only one element.
ReferenceLayer ReferenceLinear(int64_t rows, int64_t inputs, int64_t outputs);
// The layer has no bias if `weights` has only one element.
ReferenceLayer ReferenceConvolution(const ConvolutionShape& shape);
ReferenceLayer ReferenceMaxPool(const PoolShape& shape);
ReferenceLayer ReferenceAveragePool(const PoolShape& shape);
ReferenceLayer ReferenceGlobalAveragePool(int64_t pixels);
ReferenceLayer ReferenceRelu();
ReferenceLayer ReferenceGelu();
// Applies a function to each element.
ReferenceLayer ReferenceActivation(std::function<double(double)> function);
// Returns the identity if `rate` is 0.
ReferenceLayer ReferenceDropout(const RandomStream& stream, float rate);
ReferenceLayer ReferenceLayerNorm(int64_t rows, int64_t width);
// Normalizes with the mean and variance of the batch, as in training. A second
// input is the residual, which is added before the ReLU of `shape`.
ReferenceLayer ReferenceBatchNorm(const BatchNormShape& shape);
ReferenceLayer ReferenceEmbedding(int64_t context, int64_t width,
                                  const std::vector<int32_t>& tokens);
ReferenceLayer ReferenceAttention(const AttentionShape& shape,
                                  const RandomStream& stream, float rate);
ReferenceLayer ReferenceResidual();
ReferenceLayer ReferenceProduct();
struct ReferenceColumn {
  int input = 0;
  int64_t column = 0;
};
ReferenceLayer ReferenceColumns(int64_t samples,
                                const std::vector<ReferenceColumn>& columns);
// The layer has no bias if `weights` is empty.
ReferenceLayer ReferenceBlockSum(int64_t count, int64_t width);
ReferenceLayer ReferencePairDots(int64_t count, int64_t width);
ReferenceLayer ReferencePairSum(int64_t count, int64_t width);

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_SUPPORT_REFERENCE_LAYERS_H_
