// A model without computation, for measuring the exchange of gradients and
// weights alone.
#ifndef TRIBUTARY_WORKER_MODELS_SYNTHETIC_MODEL_H_
#define TRIBUTARY_WORKER_MODELS_SYNTHETIC_MODEL_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "worker/models/model.h"

namespace tributary {

// Returns the gradient of the loss of any sample with respect to the weight at
// index `element`. It is above 0 and at most 251/256. Values have few
// significant bits, so that sums and means over samples, and steps whose
// learning rate is a power of two, are exact. Values repeat every 251 elements.
// This number is prime, so neighbouring chunks (slices of the weights) have
// different values.
float SyntheticGradient(int64_t element);

// A model with one parameter, "weights", of model.synthetic.parameters
// elements, initialized to zero. A micro-batch requests all weights and then
// reports all gradients as final, so that a step consists only of the exchange
// of weights and gradients. Loss and correct predictions are always 0.
//
// Does not write to `gradients` if this buffer already holds the micro-batch's
// gradient, which avoids a pass over memory. To detect this, it examines one
// element in each 4 KiB. This is sufficient because 4 KiB is the minimum size
// of a chunk, and other code that writes to the buffer changes whole chunks.
// See Model for thread safety.
class SyntheticModel final : public Model {
 public:
  // Returns InvalidArgument, naming the field, if the number of parameters is
  // below 1.
  static absl::StatusOr<std::unique_ptr<Model>> Create(
      const SyntheticSpec& spec);

  const ParameterTable& table() const override { return table_; }
  int64_t memory_bytes() const override { return 0; }
  void Initialize(uint64_t seed, const ArenaLayout& layout,
                  float* weights) const override;
  absl::StatusOr<LossSums> ForwardBackward(const Batch& batch, uint64_t seed,
                                           int64_t step, int micro_batch,
                                           const WeightsView& weights,
                                           GradientSink* gradients,
                                           StepObserver* observer) override;
  absl::StatusOr<LossSums> Evaluate(const Batch& batch,
                                    const float* weights) override;
  absl::Status NextTokenLogits(absl::Span<const int32_t> tokens,
                               const float* weights,
                               absl::Span<float> logits) override;

 private:
  explicit SyntheticModel(int64_t parameters);

  bool Holds(const float* gradients, float samples) const;
  void Fill(float* gradients, float samples) const;

  const int64_t parameters_;
  const int64_t arena_elements_;
  ParameterTable table_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_MODELS_SYNTHETIC_MODEL_H_
