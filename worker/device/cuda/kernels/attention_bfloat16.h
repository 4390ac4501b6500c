// Causal attention in bfloat16 for head sizes of 32, 64 and 128, with scores in
// registers. AttentionForward and AttentionBackward use these functions where
// they support the arguments.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_ATTENTION_BFLOAT16_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_ATTENTION_BFLOAT16_H_

#include "common/cuda/stream.h"
#include "worker/device/cuda/kernels/attention.h"
#include "worker/device/cuda/kernels/bfloat16.h"
#include "worker/device/cuda/kernels/scratch.h"
#include "worker/device/ops/attention_ops.h"
#include "worker/device/ops/real.h"

namespace tributary::cuda {

// Like AttentionForward and AttentionBackward in attention.h, but for causal
// attention only: `shape.causal` must be true. Return true if the kernels were
// queued. Return false, and do nothing, if the head size is not 32, 64 or 128,
// a matrix is not aligned to 16 bytes, or an offset within a head does not fit
// into an int.
bool FragmentAttentionForward(Stream& stream, const AttentionShape& shape,
                              const Bfloat16* qkv,
                              const AttentionDropout& dropout, Bfloat16* y,
                              float* logarithmic_sums);
bool FragmentAttentionBackward(Stream& stream, Scratch& scratch,
                               const AttentionShape& shape, const Bfloat16* qkv,
                               const Bfloat16* y, const float* logarithmic_sums,
                               const Bfloat16* dy,
                               const AttentionDropout& dropout, Bfloat16* dqkv);

}  // namespace tributary::cuda

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_ATTENTION_BFLOAT16_H_
