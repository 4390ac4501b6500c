// Multi-head attention; layout and formulas as in
// worker/device/ops/attention_ops.h.
#ifndef TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_ATTENTION_H_
#define TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_ATTENTION_H_

#include <cstdint>

#include "common/numerics/philox.h"
#include "worker/device/cpu/kernels/scratch.h"
#include "worker/device/ops/attention_ops.h"
#include "worker/device/ops/real.h"

namespace tributary::cpu {

// Compute attention and its gradient. `logarithmic_sums`, [batch, heads, time],
// holds log(sum(exp(score))) for each row of scores. Backward recomputes the
// probabilities from these sums. Compared with storing the probabilities, this
// takes a fifth more arithmetic and reduces memory by a factor of `time`.
// `scratch` is overwritten. The tensors hold consecutive sequences of a batch;
// `first_sequence` is the index of the first one within the batch, and selects
// the random numbers of dropout. `lengths`, [batch], may be null; see
// AttentionOps.
void AttentionForward(const AttentionShape& shape, int64_t first_sequence,
                      const float* qkv, const RandomStream& stream, float rate,
                      const int32_t* lengths, Scratch& scratch, float* y,
                      float* logarithmic_sums);
void AttentionBackward(const AttentionShape& shape, int64_t first_sequence,
                       const float* qkv, const float* y,
                       const float* logarithmic_sums, const float* dy,
                       const RandomStream& stream, float rate,
                       const int32_t* lengths, Scratch& scratch, float* dqkv);

}  // namespace tributary::cpu

#endif  // TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_ATTENTION_H_
