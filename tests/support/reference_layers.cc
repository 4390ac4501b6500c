#include "tests/support/reference_layers.h"

#include <algorithm>

#include "tests/worker/device/reference.h"

namespace tributary {
namespace {

using Inputs = const std::vector<Values>&;

// Returns the bias of a layer that may have none.
Values BiasOf(Inputs weights) {
  return weights.size() > 1 ? weights[1] : Values();
}

// Layers do not set the batch: it follows from the size of their input.
PoolShape WithBatch(PoolShape shape, const Values& x) {
  shape.batch = static_cast<int64_t>(x.size()) /
                (shape.channels * shape.in_height * shape.in_width);
  return shape;
}

}  // namespace

ReferenceLayer ReferenceLinear(int64_t rows, int64_t inputs, int64_t outputs) {
  return [=](Inputs x, Inputs w) {
    return reference::LinearForward({rows, inputs, outputs}, x[0], w[0],
                                    BiasOf(w));
  };
}

ReferenceLayer ReferenceConvolution(const ConvolutionShape& s) {
  return [=](Inputs x, Inputs w) {
    return reference::ConvolutionForward(s, x[0], w[0], BiasOf(w));
  };
}

ReferenceLayer ReferenceMaxPool(const PoolShape& s) {
  return [=](Inputs x, Inputs) {
    const reference::Integers places =
        reference::MaxPoolPlaces(WithBatch(s, x[0]), x[0]);
    Values y;
    for (size_t i = 0; i < places.size(); ++i) {
      const int64_t plane =
          static_cast<int64_t>(i) / (s.out_height * s.out_width);
      y.push_back(x[0][plane * s.in_height * s.in_width + places[i]]);
    }
    return y;
  };
}

ReferenceLayer ReferenceAveragePool(const PoolShape& s) {
  return [=](Inputs x, Inputs) {
    return reference::AveragePoolForward(WithBatch(s, x[0]), x[0]);
  };
}

ReferenceLayer ReferenceGlobalAveragePool(int64_t pixels) {
  return [=](Inputs x, Inputs) {
    return reference::GlobalAveragePoolForward(
        static_cast<int64_t>(x[0].size()) / pixels, pixels, x[0]);
  };
}

ReferenceLayer ReferenceRelu() {
  return [](Inputs x, Inputs) {
    Values y = x[0];
    for (double& value : y) value = std::max(value, 0.0);
    return y;
  };
}

ReferenceLayer ReferenceGelu() { return ReferenceActivation(&reference::Gelu); }

ReferenceLayer ReferenceActivation(std::function<double(double)> function) {
  return [function = std::move(function)](Inputs x, Inputs) {
    Values y = x[0];
    for (double& value : y) value = function(value);
    return y;
  };
}

ReferenceLayer ReferenceDropout(const RandomStream& stream, float rate) {
  return [=](Inputs x, Inputs) {
    Values y = x[0];
    for (size_t i = 0; i < y.size(); ++i) {
      y[i] *= reference::DropoutFactor(stream, rate, i);
    }
    return y;
  };
}

ReferenceLayer ReferenceLayerNorm(int64_t rows, int64_t width) {
  return [=](Inputs x, Inputs w) {
    return reference::LayerNormForward(rows, width, x[0], w[0], BiasOf(w));
  };
}

ReferenceLayer ReferenceBatchNorm(const BatchNormShape& s) {
  return [=](Inputs x, Inputs w) {
    return reference::BatchNormEvaluate(
        s, x[0], w[0], w[1], reference::BatchNormMean(s, x[0]),
        reference::BatchNormVariance(s, x[0]), x.size() > 1 ? x[1] : Values());
  };
}

ReferenceLayer ReferenceEmbedding(int64_t context, int64_t width,
                                  const std::vector<int32_t>& tokens) {
  return [=](Inputs, Inputs w) {
    Values y;
    for (size_t i = 0; i < tokens.size(); ++i) {
      for (int64_t c = 0; c < width; ++c) {
        y.push_back(w[0][tokens[i] * width + c] +
                    w[1][(i % context) * width + c]);
      }
    }
    return y;
  };
}

ReferenceLayer ReferenceAttention(const AttentionShape& s,
                                  const RandomStream& stream, float rate) {
  return [=](Inputs x, Inputs) {
    return reference::AttentionForward(s, x[0], stream, rate);
  };
}

ReferenceLayer ReferenceResidual() {
  return [](Inputs x, Inputs) {
    Values y = x[0];
    for (size_t i = 0; i < y.size(); ++i) y[i] += x[1][i];
    return y;
  };
}

ReferenceLayer ReferenceProduct() {
  return [](Inputs x, Inputs) {
    Values y = x[0];
    for (size_t i = 0; i < y.size(); ++i) y[i] *= x[1][i];
    return y;
  };
}

ReferenceLayer ReferenceColumns(int64_t samples,
                                const std::vector<ReferenceColumn>& columns) {
  return [=](Inputs x, Inputs) {
    Values y;
    for (int64_t r = 0; r < samples; ++r) {
      for (const ReferenceColumn& at : columns) {
        const Values& input = x[at.input];
        y.push_back(input[r * (input.size() / samples) + at.column]);
      }
    }
    return y;
  };
}

ReferenceLayer ReferenceBlockSum(int64_t count, int64_t width) {
  return [=](Inputs x, Inputs w) {
    const auto rows = static_cast<int64_t>(x[0].size()) / (count * width);
    return reference::SumBlocks(rows, count, width, x[0],
                                w.empty() ? Values() : w[0]);
  };
}

ReferenceLayer ReferencePairDots(int64_t count, int64_t width) {
  return [=](Inputs x, Inputs) {
    const auto rows = static_cast<int64_t>(x[0].size()) / (count * width);
    return reference::PairDots(rows, count, width, x[0]);
  };
}

ReferenceLayer ReferencePairSum(int64_t count, int64_t width) {
  return [=](Inputs x, Inputs) {
    const auto rows = static_cast<int64_t>(x[0].size()) / (count * width);
    return reference::PairSum(rows, count, width, x[0]);
  };
}

}  // namespace tributary
