// Losses and their gradients.
#ifndef TRIBUTARY_WORKER_DEVICE_OPS_LOSS_OPS_H_
#define TRIBUTARY_WORKER_DEVICE_OPS_LOSS_OPS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "worker/device/ops/real.h"

namespace tributary {

// The sum of the losses of several rows, and the number of rows whose
// prediction is correct.
struct Loss {
  double sum = 0;
  int64_t correct = 0;
  int64_t counted = 0;  // Number of rows, except those with label -1.
};

// Losses and their gradients. After each call that begins a loss, Await must be
// called exactly once. The losses of the rows are added in float64, in order of
// the rows. Gradients are those of this sum. See worker/device/device.h for the
// conventions of all operations.
class LossOps {
 public:
  struct SoftmaxCrossEntropyArguments {
    int64_t rows = 0, classes = 0;
    const Real* logits = nullptr;  // [rows, classes]
    // The label of each row, [rows]. Rows with the label -1 do not count: their
    // loss and gradient are zero.
    const int32_t* labels = nullptr;
    Real* dlogits = nullptr;  // [rows, classes]; null skips it; may be logits.
    // Label smoothing, in [0, 1): the weight of the uniform distribution in the
    // target distribution.
    float smoothing = 0;
    // Number of classes at the end of each row that are padding: label
    // smoothing assigns no probability to them. Must be below `classes`. Not
    // used if `smoothing` is 0.
    int64_t padding = 0;
  };
  struct MeanSquaredErrorArguments {
    int64_t rows = 0, width = 0;
    const Real* x = nullptr;        // [rows, width]
    const float* target = nullptr;  // [rows, width]
    Real* dx = nullptr;             // [rows, width]; null skips it; may be x.
  };

  struct BinaryCrossEntropyArguments {
    int64_t rows = 0;
    const Real* logits = nullptr;     // [rows]
    const int32_t* labels = nullptr;  // [rows], 0, 1, or -1 as above.
    Real* dlogits = nullptr;          // [rows]; null skips it; may be logits.
  };

  virtual ~LossOps() = default;

  // Begins to compute the loss of each row. With p = the softmax of all logits
  // of the row, including those of the padding, K = classes - padding, and s =
  // smoothing, the loss is
  //   -(1 - s) ln p[label] - s / K * (the sum of ln p[c] over c < K)
  virtual void BeginSoftmaxCrossEntropy(
      const SoftmaxCrossEntropyArguments& args) = 0;
  // Begins to compute the loss of each row, which is the mean of (x - target)^2
  // over the row's `width` elements.
  virtual void BeginMeanSquaredError(const MeanSquaredErrorArguments& args) = 0;
  // Begins to compute the loss of each row, which is ln(1 + exp(x)) - label x
  // for the logit x. A row is correct if x > 0 and its label is 1, or if x <= 0
  // and its label is 0.
  virtual void BeginBinaryCrossEntropy(
      const BinaryCrossEntropyArguments& args) = 0;
  // Returns the result of the loss that was begun last. Waits for that loss
  // only, not for operations queued later. Returns the device's error if it has
  // failed.
  virtual absl::StatusOr<Loss> Await() = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DEVICE_OPS_LOSS_OPS_H_
