// Embedding tables; formulas as in worker/device/ops/embedding_ops.h.
#ifndef TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_EMBEDDING_H_
#define TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_EMBEDDING_H_

#include <cstdint>

namespace tributary::cpu {

// EmbeddingForward sets y to the sum of the token embedding and the position
// embedding. EmbeddingBackward computes the gradients of both tables. If
// `accumulate` is true, EmbeddingForward adds to y, and EmbeddingBackward adds
// to dtoken_table, instead of overwriting it. `tokens` has the shape [batch,
// time], and each token is in [0, vocabulary). y and dy have the shape [batch,
// time, width]. position_table and dposition_table may be null.
void EmbeddingForward(int64_t batch, int64_t time, int64_t width,
                      const int32_t* tokens, const float* token_table,
                      const float* position_table, bool accumulate, float* y);

void EmbeddingBackward(int64_t batch, int64_t time, int64_t width,
                       int64_t vocabulary, const int32_t* tokens,
                       const float* dy, bool accumulate, float* dtoken_table,
                       float* dposition_table);

}  // namespace tributary::cpu

#endif  // TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_EMBEDDING_H_
