#include "worker/device/cpu/kernels/embedding.h"

#include <cstring>

#include "common/numerics/simd.h"
#include "worker/device/cpu/kernels/elementwise.h"

namespace tributary::cpu {

TRIBUTARY_MULTIVERSION
void EmbeddingForward(int64_t batch, int64_t time, int64_t width,
                      const int32_t* tokens, const float* token_table,
                      const float* position_table, bool accumulate, float* y) {
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t t = 0; t < time; ++t) {
      const float* token = token_table + tokens[b * time + t] * width;
      float* out = y + (b * time + t) * width;
      for (int64_t c = 0; c < width; ++c) {
        out[c] = accumulate ? out[c] + token[c] : token[c];
      }
      if (position_table == nullptr) continue;
      const float* position = position_table + t * width;
      for (int64_t c = 0; c < width; ++c) out[c] += position[c];
    }
  }
}

void EmbeddingBackward(int64_t batch, int64_t time, int64_t width,
                       int64_t vocabulary, const int32_t* tokens,
                       const float* dy, bool accumulate, float* dtoken_table,
                       float* dposition_table) {
  if (!accumulate) {
    std::memset(dtoken_table, 0, vocabulary * width * sizeof(float));
  }
  if (dposition_table != nullptr) {
    std::memcpy(dposition_table, dy, time * width * sizeof(float));
    for (int64_t b = 1; b < batch; ++b) {
      Add(time * width, dy + b * time * width, dposition_table);
    }
  }
  for (int64_t i = 0; i < batch * time; ++i) {
    Add(width, dy + i * width, dtoken_table + tokens[i] * width);
  }
}

}  // namespace tributary::cpu
