// Losses; formulas as in worker/device/ops/loss_ops.h.
#ifndef TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_LOSS_H_
#define TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_LOSS_H_

#include <cstdint>

#include "worker/device/ops/loss_ops.h"

namespace tributary::cpu {

// Returns the sum of the rows' losses and the number of correct rows. Writes
// the gradient of the sum to dlogits, which may be null or equal to logits.
// logits and dlogits have the shape [rows, classes]. Labels are in [-1,
// classes). The loss and the gradient of a row with the label -1 are 0. A row
// is correct if its label is the index of its first maximum. `smoothing` and
// `padding` are as in SoftmaxCrossEntropyArguments.
Loss SoftmaxCrossEntropy(int64_t rows, int64_t classes, const float* logits,
                         const int32_t* labels, float* dlogits, float smoothing,
                         int64_t padding);

// Returns the sum of the rows' losses, each of which is the mean of (x -
// target)^2 over the row. Writes the gradient of the sum to dx, which may be
// null or equal to x. x, target and dx have the shape [rows, width].
Loss MeanSquaredError(int64_t rows, int64_t width, const float* x,
                      const float* target, float* dx);

// Returns the sum of the rows' losses and the number of correct rows. Writes
// the gradient of the sum to dlogits, which may be null or equal to logits.
// logits, labels and dlogits have the shape [rows]. The loss and the gradient
// of a row with the label -1 are 0.
Loss BinaryCrossEntropy(int64_t rows, const float* logits,
                        const int32_t* labels, float* dlogits);

}  // namespace tributary::cpu

#endif  // TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_LOSS_H_
