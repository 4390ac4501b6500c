// Embedding tables; formulas as in worker/device/ops/embedding_ops.h.
#ifndef TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_EMBEDDING_H_
#define TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_EMBEDDING_H_

#include <cstdint>

namespace tributary::cpu {

// EmbeddingForward computes the sum of the token embedding and the position
// embedding. EmbeddingBackward computes the gradients of both tables; with
// `accumulate`, it adds to dtoken_table. `tokens` has the shape [batch, time],
// and each token is in [0, vocabulary). y and dy have the shape [batch, time,
// width]. EmbeddingForward adds to y if `accumulate` is true. The position
// table may be null in both functions.
void EmbeddingForward(int64_t batch, int64_t time, int64_t width,
                      const int32_t* tokens, const float* token_table,
                      const float* position_table, bool accumulate, float* y);

void EmbeddingBackward(int64_t batch, int64_t time, int64_t width,
                       int64_t vocabulary, const int32_t* tokens,
                       const float* dy, bool accumulate, float* dtoken_table,
                       float* dposition_table);

}  // namespace tributary::cpu

#endif  // TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_EMBEDDING_H_
