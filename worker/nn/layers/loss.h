// Losses that networks are trained to minimize.
#ifndef TRIBUTARY_WORKER_NN_LAYERS_LOSS_H_
#define TRIBUTARY_WORKER_NN_LAYERS_LOSS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "worker/device/device.h"

namespace tributary {

// A loss that is summed over `rows` rows per sample; `width` is the number of
// elements of a row.
struct LossSpec {
  enum class Kind {
    // loss = -ln softmax(x)[label]; dx = softmax(x) - one_hot(label). X[samples
    // * rows, width], int32 labels[samples * rows]. Subtracts the row's maximum
    // before the softmax, which prevents overflow. A row with the label -1 does
    // not count: its loss and gradient are 0.
    kSoftmaxCrossEntropy,
    // loss = mean over the row of (x - target)^2; dx = 2 (x - target) / width.
    // X and targets: [samples * rows, width].
    kMeanSquaredError,
  };
  Kind kind = Kind::kSoftmaxCrossEntropy;
  int64_t rows = 1;
  int64_t width = 0;
  // Number of elements at the end of a row that are padding: no label names
  // them, and their probability is 0.
  int64_t padding = 0;

  // Number of four-byte elements of the targets of one sample.
  int64_t TargetElements() const;
};

// Begins to compute the loss of `samples` samples, which LossOps::Await
// returns. Unless `gradient` is null, also computes the gradient of the sum of
// the losses; `gradient` may be `x`. `target` holds labels or numbers.
void BeginLoss(Device* device, const LossSpec& spec, int64_t samples,
               const Real* x, const void* target, Real* gradient);

// Like BeginLoss, but waits for the result.
absl::StatusOr<Loss> ComputeLoss(Device* device, const LossSpec& spec,
                                 int64_t samples, const Real* x,
                                 const void* target, Real* gradient);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_LAYERS_LOSS_H_
