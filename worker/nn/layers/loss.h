// Losses that networks are trained to minimize.
#ifndef TRIBUTARY_WORKER_NN_LAYERS_LOSS_H_
#define TRIBUTARY_WORKER_NN_LAYERS_LOSS_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "worker/device/device.h"

namespace tributary {

// A loss that a user's program defines. Computes in host memory in float32: a
// worker on a GPU, or with `precision: BFLOAT16`, refuses a network with such a
// loss. Immutable and therefore thread-safe.
class LossFunction {
 public:
  // What the loss compares the predictions with: labels, if the data have
  // classes, or else values.
  enum class Targets { kLabels, kValues };

  struct Arguments {
    int64_t samples = 0;  // At least 1.
    // The predictions, [samples, LossSpec::width].
    const float* x = nullptr;
    // The targets, [samples, target_elements()]. One of the two is null. The
    // label -1 marks a target that does not count: it must contribute nothing
    // to the loss, to the gradient and to the correct predictions.
    const int32_t* labels = nullptr;
    const float* values = nullptr;
    // Where the gradient of the sum of the losses is written, [samples,
    // LossSpec::width]. If it is null, no gradient is needed.
    float* gradient = nullptr;
  };
  struct Sums {
    double loss = 0;      // Sum of the losses of the samples.
    int64_t correct = 0;  // Number of correct predictions; 0 if undefined.
  };

  virtual ~LossFunction() = default;

  virtual Targets targets() const = 0;
  // Returns the number of labels or values of one sample.
  virtual int64_t target_elements() const { return 1; }
  // The result must depend only on the arguments.
  virtual Sums Compute(const Arguments& args) const = 0;
};

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
    // Binary cross-entropy of a logit: loss = ln(1 + exp(x)) - label x; dx =
    // 1 / (1 + exp(-x)) - label. X and int32 labels, which are 0 or 1: [samples
    // * rows]; `width` must be 1. A row with the label -1 does not count.
    kBinaryCrossEntropy,
    // The loss that `function` computes. `rows` must be 1.
    kFunction,
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
  // Set for kFunction only.
  std::shared_ptr<const LossFunction> function = nullptr;

  // Return the loss of networks that make one prediction per sample: a class of
  // `classes` from as many logits, one of two classes from one logit, `numbers`
  // numbers, or what `function` makes of `width` elements.
  static LossSpec SoftmaxCrossEntropy(int64_t classes);
  static LossSpec BinaryCrossEntropy();
  static LossSpec MeanSquaredError(int64_t numbers = 1);
  static LossSpec Function(std::shared_ptr<const LossFunction> function,
                           int64_t width);

  // Returns true if the targets are labels (int32), false if they are floats.
  bool HasLabels() const;
  // Number of four-byte elements of the targets of one sample.
  int64_t TargetElements() const;
  // Returns the number of rows of `samples` samples that count: all rows but
  // those with the label -1. For kFunction, returns the number of labels that
  // are not -1 or, if the targets are values, `samples`.
  int64_t CountedRows(int64_t samples, const void* target) const;
};

// Computes the loss of a batch. Not thread-safe.
class LossComputation {
 public:
  // Begins to compute the sum of the losses of `samples` samples. Unless
  // `gradient` is null, also computes the gradient of the sum of the losses.
  // `x` is the prediction. `target` holds int32 labels or floats; see
  // LossSpec::HasLabels. `gradient` may be `x`, except for Kind::kFunction. For
  // Kind::kFunction, the device must work in host memory in float32.
  void Begin(Device* device, const LossSpec& spec, int64_t samples,
             const Real* x, const void* target, Real* gradient);
  // Waits for the loss that was begun last and returns it. Must be called once
  // after each Begin. Returns the errors of LossOps::Await.
  absl::StatusOr<Loss> Await();

 private:
  LossOps* ops_ = nullptr;  // Null if a LossFunction has computed the loss.
  Loss function_loss_;
};

// Computes a loss as LossComputation does and returns it.
absl::StatusOr<Loss> ComputeLoss(Device* device, const LossSpec& spec,
                                 int64_t samples, const Real* x,
                                 const void* target, Real* gradient);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_LAYERS_LOSS_H_
