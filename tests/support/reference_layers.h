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

// Has no bias if there is only one weight.
ReferenceLayer ReferenceLinear(int64_t rows, int64_t inputs, int64_t outputs);
// Has no bias if there is only one weight.
ReferenceLayer ReferenceConvolution(const ConvolutionShape& shape);
ReferenceLayer ReferenceMaxPool(const PoolShape& shape);
ReferenceLayer ReferenceAveragePool(const PoolShape& shape);
ReferenceLayer ReferenceGlobalAveragePool(int64_t pixels);
ReferenceLayer ReferenceRelu();
ReferenceLayer ReferenceGelu();
// The identity if the rate is 0.
ReferenceLayer ReferenceDropout(const RandomStream& stream, float rate);
ReferenceLayer ReferenceLayerNorm(int64_t rows, int64_t width);
// Computes in training mode. If there is an input 1, adds it to the result.
ReferenceLayer ReferenceBatchNorm(const BatchNormShape& shape);
ReferenceLayer ReferenceEmbedding(int64_t context, int64_t width,
                                  const std::vector<int32_t>& tokens);
ReferenceLayer ReferenceAttention(const AttentionShape& shape,
                                  const RandomStream& stream, float rate);
ReferenceLayer ReferenceResidual();

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_SUPPORT_REFERENCE_LAYERS_H_
