// Losses that networks are trained to minimize.
#ifndef TRIBUTARY_WORKER_NN_LAYERS_LOSS_H_
#define TRIBUTARY_WORKER_NN_LAYERS_LOSS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "worker/device/device.h"

namespace tributary {

// Describes a loss. The loss of a sample is the sum over its `rows` rows, each
// of which has `width` elements.
struct LossSpec {
  enum class Kind {
    // Softmax cross-entropy: loss = -ln softmax(x)[label]; dx = softmax(x) -
    // one_hot(label). The shapes are X[samples * rows, width] and int32
    // labels[samples * rows]. Subtracts the row's maximum before the softmax,
    // which prevents overflow. A row with the label -1 does not count: its loss
    // and gradient are 0.
    kSoftmaxCrossEntropy,
    // Mean squared error: loss = mean over the row of (x - target)^2, and
    // dx = 2 (x - target) / width. X and targets: [samples * rows, width].
    kMeanSquaredError,
  };
  Kind kind = Kind::kSoftmaxCrossEntropy;
  int64_t rows = 1;
  int64_t width = 0;
  // Number of elements at the end of each row that are padding: no label refers
  // to them, and their probability is 0.
  int64_t padding = 0;
  // Label smoothing of kSoftmaxCrossEntropy, in [0, 1): the target is
  // one_hot(label) with weight 1 - smoothing, and the uniform distribution over
  // the row's elements without padding with weight `smoothing`.
  float smoothing = 0;

  // Number of four-byte elements of the targets of one sample.
  int64_t TargetElements() const;
};

// Begins to compute the sum of the losses of `samples` samples, which
// LossOps::Await returns. Unless `gradient` is null, also computes the gradient
// of the sum of the losses; `gradient` may be `x`. `x` is the prediction.
// `target` holds int32 labels for kSoftmaxCrossEntropy and floats for
// kMeanSquaredError.
void BeginLoss(Device* device, const LossSpec& spec, int64_t samples,
               const Real* x, const void* target, Real* gradient);

// Like BeginLoss, but waits for the loss and returns it. Returns the errors of
// LossOps::Await.
absl::StatusOr<Loss> ComputeLoss(Device* device, const LossSpec& spec,
                                 int64_t samples, const Real* x,
                                 const void* target, Real* gradient);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_LAYERS_LOSS_H_
