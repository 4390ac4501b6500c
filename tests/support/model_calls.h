// What a model calls while it computes a micro-batch.
#ifndef TRIBUTARY_TESTS_SUPPORT_MODEL_CALLS_H_
#define TRIBUTARY_TESTS_SUPPORT_MODEL_CALLS_H_

#include <cstdint>

#include "worker/nn/gradient_sink.h"
#include "worker/nn/step_observer.h"
#include "worker/nn/weights_view.h"

namespace tributary {

// Receives the calls of WeightsView, GradientSink and StepObserver.
class ModelCalls : public StepObserver {
 public:
  virtual bool Await(int64_t /*begin*/, int64_t /*end*/) { return true; }
  virtual void Ready(int64_t /*begin*/) {}
  virtual void SetSampleCount(int64_t /*sample_count*/) {}
  virtual absl::Status SetLearningRate(double /*rate*/) {
    return absl::OkStatus();
  }
};

// Passes calls on to `calls`, which must outlive this object and may be null.
class ObservedWeights final : public WeightsView {
 public:
  ObservedWeights(const float* data, ModelCalls* calls)
      : WeightsView(data), calls_(calls) {}
  bool Await(int64_t begin, int64_t end) const override {
    return calls_ == nullptr || calls_->Await(begin, end);
  }

 private:
  ModelCalls* const calls_;
};

// Passes calls on to `calls`, which must outlive this object and may be null.
// Keeps the gradients of vectors in `vectors`; null: they are not wanted.
class ObservedGradients final : public GradientSink {
 public:
  ObservedGradients(float* data, ModelCalls* calls, float* vectors = nullptr)
      : GradientSink(data), calls_(calls), vectors_(vectors) {}
  void SetSampleCount(int64_t sample_count) override {
    if (calls_ != nullptr) calls_->SetSampleCount(sample_count);
  }
  absl::Status SetLearningRate(double rate) override {
    if (calls_ == nullptr) return absl::OkStatus();
    return calls_->SetLearningRate(rate);
  }
  void Ready(int64_t begin) override {
    if (calls_ != nullptr) calls_->Ready(begin);
  }
  float* VectorGradients() override { return vectors_; }

 private:
  ModelCalls* const calls_;
  float* const vectors_;
};

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_SUPPORT_MODEL_CALLS_H_
