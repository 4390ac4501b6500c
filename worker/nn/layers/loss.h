// Losses: what a network is trained to make small.
#ifndef TRIBUTARY_WORKER_NN_LAYERS_LOSS_H_
#define TRIBUTARY_WORKER_NN_LAYERS_LOSS_H_

#include <cstdint>

#include "worker/device/device.h"

namespace tributary {

// A sum over `rows` rows per sample; `width` is the number of elements of a
// row.
struct LossSpec {
  enum class Kind {
    // loss = -ln softmax(x)[label]; dx = softmax(x) - one_hot(label).
    // X[samples * rows, width], int32 labels[samples * rows]. The softmax is
    // taken after subtracting the row's maximum, so that it cannot overflow.
    // A row with the label -1 does not count: no loss, no gradient.
    kSoftmaxCrossEntropy,
    // loss = mean over the row of (x - target)^2; dx = 2 (x - target) / width.
    // X and targets: [samples * rows, width].
    kMeanSquaredError,
  };
  Kind kind = Kind::kSoftmaxCrossEntropy;
  int64_t rows = 1;
  int64_t width = 0;

  // Four-byte elements of the targets of one sample.
  int64_t TargetElements() const;
};

// Begins the loss of `samples` samples, for Device::AwaitLoss, and, unless
// `gradient` is null, makes the gradient of its sum, which may take the place
// of `x`. `target` holds labels or numbers.
void BeginLoss(Device* device, const LossSpec& spec, int64_t samples,
               const Real* x, const void* target, Real* gradient);

// The same, and waits for it.
Device::Loss ComputeLoss(Device* device, const LossSpec& spec, int64_t samples,
                         const Real* x, const void* target, Real* gradient);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_LAYERS_LOSS_H_
