// Embeddings of tokens and their positions.
#ifndef TRIBUTARY_WORKER_DEVICE_OPS_EMBEDDING_OPS_H_
#define TRIBUTARY_WORKER_DEVICE_OPS_EMBEDDING_OPS_H_

#include <cstdint>

#include "worker/device/ops/real.h"

namespace tributary {

// Sums of a token embedding and a position embedding. See
// worker/device/device.h for the conventions of all operations.
class EmbeddingOps {
 public:
  struct ForwardArguments {
    int64_t batch = 0, time = 0, width = 0;
    const int32_t* tokens = nullptr;        // [batch, time]
    const float* token_table = nullptr;     // [vocabulary, width]
    const float* position_table = nullptr;  // [at least time, width], or null.
    Real* y = nullptr;                      // [batch, time, width]
    bool accumulate = false;                // True to add to y.
  };
  struct BackwardArguments {
    int64_t batch = 0, time = 0, width = 0, vocabulary = 0;
    const int32_t* tokens = nullptr;   // [batch, time]
    const Real* dy = nullptr;          // [batch, time, width]
    bool accumulate = false;           // True to add to dtoken_table.
    float* dtoken_table = nullptr;     // [vocabulary, width]
    float* dposition_table = nullptr;  // [at least time, width], or null.
  };

  virtual ~EmbeddingOps() = default;

  // Computes y[b, t, :] = token_table[tokens[b, t], :] + position_table[t, :]
  // for each sequence b and position t. With `accumulate`, adds the sum to y
  // instead. A null position table stands for zeros.
  virtual void Forward(const ForwardArguments& args) = 0;
  // Adds dy[b, t, :] to row tokens[b, t] of dtoken_table for all b and t, in
  // order of b, then t. If `accumulate` is false, first sets dtoken_table to
  // zero. Whatever `accumulate` is, sets row t of dposition_table to the sum of
  // dy[b, t, :] over b, for t < time, and leaves the remaining rows unchanged.
  // Skips dposition_table if it is null.
  virtual void Backward(const BackwardArguments& args) = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DEVICE_OPS_EMBEDDING_OPS_H_
