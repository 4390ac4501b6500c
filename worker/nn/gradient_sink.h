// The gradients that a network computes for one micro-batch.
#ifndef TRIBUTARY_WORKER_NN_GRADIENT_SINK_H_
#define TRIBUTARY_WORKER_NN_GRADIENT_SINK_H_

#include <cstdint>

#include "absl/status/status.h"

namespace tributary {

// An arena, a buffer for the gradients of the whole model, and what becomes of
// the gradients in it. The arena is in the memory where the model computes, and
// must outlive this object. Used by the compute thread.
class GradientSink {
 public:
  // Keeps the gradients in the arena `data`. `sample_count` is the number of
  // samples (for texts, tokens) of the micro-batch.
  explicit GradientSink(float* data, int64_t sample_count = 0)
      : data_(data), sample_count_(sample_count) {}
  virtual ~GradientSink() = default;

  float* data() const { return data_; }
  int64_t sample_count() const { return sample_count_; }
  // Replaces the number of samples (tokens) of the micro-batch, which by
  // default is the number of targets that count (those whose label is not -1).
  // The gradient sum of a step is divided by the sum of these numbers over its
  // micro-batches. Called at most once, before the first Ready, by models that
  // leave samples out of the loss.
  virtual void SetSampleCount(int64_t sample_count) {
    sample_count_ = sample_count;
  }
  // States the learning rate of the step, which takes the place of that of the
  // job's schedule. Called at most once, before the first Ready. Returns
  // InvalidArgument if another rate was stated for the step.
  virtual absl::Status SetLearningRate(double /*rate*/) {
    return absl::OkStatus();
  }
  // Called when the gradients from element `begin` to the end of the arena are
  // final: operations queued from now on may read them. On devices that run
  // operations synchronously, the host may also read them. Called with
  // decreasing `begin`; the last call has `begin` 0.
  virtual void Ready(int64_t /*begin*/) {}
  // Returns where models whose input has vectors (see Batch::vectors) write the
  // gradient of the sum of the losses with respect to them: [samples, elements
  // of a sample's vectors], in host memory. Null if it is not wanted. Called
  // after the last Ready; the gradients are complete when the model returns.
  virtual float* VectorGradients() { return nullptr; }

 protected:
  void SetData(float* data) { data_ = data; }

 private:
  float* data_;
  int64_t sample_count_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_GRADIENT_SINK_H_
