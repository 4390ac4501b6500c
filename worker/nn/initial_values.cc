#include "worker/nn/initial_values.h"

#include <algorithm>
#include <cstddef>

#include "common/numerics/philox.h"
#include "worker/nn/layers/initializer.h"

namespace tributary {

void WriteInitialValues(const Graph& graph, uint64_t seed,
                        const ArenaLayout& layout, int64_t begin, int64_t end,
                        float* weights) {
  std::fill(weights + begin, weights + end, 0.0f);
  for (size_t i = 0; i < layout.parameters().size(); ++i) {
    const Parameter& parameter = layout.parameters()[i];
    if (parameter.offset >= end || parameter.offset + parameter.size <= begin) {
      continue;
    }
    InitializeRange(graph.initializers()[i],
                    RandomStream{seed, RandomPurpose::kInitialization, 0,
                                 static_cast<uint32_t>(i)},
                    std::max<int64_t>(begin - parameter.offset, 0),
                    std::min(end - parameter.offset, parameter.size),
                    weights + parameter.offset);
  }
}

}  // namespace tributary
