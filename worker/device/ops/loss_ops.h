// Losses and their gradients.
#ifndef TRIBUTARY_WORKER_DEVICE_OPS_LOSS_OPS_H_
#define TRIBUTARY_WORKER_DEVICE_OPS_LOSS_OPS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "worker/device/ops/real.h"

namespace tributary {

// A loss, summed over its rows.
struct Loss {
  double sum = 0;
  int64_t correct = 0;
  int64_t counted = 0;  // Number of rows that count.
};

// Each loss is begun and then awaited exactly once. Gradients are those of the
// sum of the losses. Sums over rows are computed in float64, in order.
// Conventions: worker/device/device.h.
class LossOps {
 public:
  struct SoftmaxCrossEntropyArguments {
    int64_t rows = 0, classes = 0;
    const Real* logits = nullptr;  // [rows, classes]
    // [rows]. Rows with a label of -1 do not count: their loss and gradient are
    // zero.
    const int32_t* labels = nullptr;
    Real* dlogits = nullptr;  // [rows, classes]; null skips it; may be logits.
  };
  struct MeanSquaredErrorArguments {
    int64_t rows = 0, width = 0;
    const Real* x = nullptr;        // [rows, width]
    const float* target = nullptr;  // [rows, width]
    Real* dx = nullptr;             // [rows, width]; null skips it; may be x.
  };

  virtual ~LossOps() = default;

  // Per row: -ln softmax(logits)[label].
  virtual void BeginSoftmaxCrossEntropy(
      const SoftmaxCrossEntropyArguments& args) = 0;
  // Per row: mean over `width` of (x - target)^2.
  virtual void BeginMeanSquaredError(const MeanSquaredErrorArguments& args) = 0;
  // Returns the last loss begun. Waits for that loss only, not for later
  // operations. Returns the device's error if it has failed.
  virtual absl::StatusOr<Loss> Await() = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DEVICE_OPS_LOSS_OPS_H_
