#include "worker/nn/layers/initializer.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "common/numerics/normal_quantile.h"
#include "common/numerics/philox.h"

namespace tributary {
Initializer Initializer::Constant(double value) {
  return {Kind::kConstant, value};
}
Initializer Initializer::Uniform(double bound) {
  return {Kind::kUniform, bound};
}
Initializer Initializer::Normal(double deviation) {
  return {Kind::kNormal, deviation};
}
Initializer Initializer::FanIn(int64_t fan_in) {
  return Uniform(1.0 / std::sqrt(static_cast<double>(fan_in)));
}

Initializer Initializer::FanOut(int64_t fan_out) {
  return Normal(std::sqrt(2.0 / static_cast<double>(fan_out)));
}

void InitializeValues(const Initializer& initializer,
                      const RandomStream& stream, int64_t size, float* values) {
  InitializeRange(initializer, stream, /*begin=*/0, size, values);
}

void InitializeRange(const Initializer& initializer, const RandomStream& stream,
                     int64_t begin, int64_t end, float* values) {
  if (initializer.kind == Initializer::Kind::kConstant) {
    std::fill(values + begin, values + end,
              static_cast<float>(initializer.scale));
    return;
  }
  const float bound = static_cast<float>(initializer.scale);
  int64_t i = begin;
  while (i < end) {
    const PhiloxBlock block = stream.Block(static_cast<uint64_t>(i) / 4);
    const int64_t block_end = std::min(end, (i / 4 + 1) * 4);
    for (; i < block_end; ++i) {
      const uint32_t bits = block[i % 4];
      values[i] =
          initializer.kind == Initializer::Kind::kUniform
              ? bound * (2 * UniformFloat(bits) - 1)
              : static_cast<float>(initializer.scale * NormalQuantile(bits));
    }
  }
}

}  // namespace tributary
