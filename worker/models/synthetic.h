// A model that computes nothing, for measuring the exchange alone.
#ifndef TRIBUTARY_WORKER_MODELS_SYNTHETIC_H_
#define TRIBUTARY_WORKER_MODELS_SYNTHETIC_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "worker/models/model.h"

namespace tributary {

// d loss / d weight[element] of one sample: always the same, above 0 and at
// most 251/256. Few bits, so that sums over samples, means and steps with a
// learning rate that is a power of two are exact; a prime period, so that no
// two chunks are alike.
float SyntheticGradient(int64_t element);

// One parameter, "weights", of model.synthetic.parameters elements, that starts
// at zero. A leaf asks for all weights, and then says at once that all
// gradients are final: between two steps there is nothing but the exchange.
// Loss and correct predictions are 0 whatever the data are.
//
// A gradient arena that holds the leaf's gradient already is left alone, so
// that the model costs no pass over the memory. One element in each 4 KiB, the
// least size of a chunk, is looked at for that: whoever adds to a gradient
// arena does so for whole chunks. Threads as Model.
class SyntheticModel final : public Model {
 public:
  // InvalidArgument, naming the field, if the number of parameters is below 1.
  static absl::StatusOr<std::unique_ptr<Model>> Create(
      const SyntheticSpec& spec);

  const ParameterTable& table() const override { return table_; }
  int64_t memory_bytes() const override { return 0; }
  void Initialize(uint64_t seed, const ArenaLayout& layout,
                  float* weights) const override;
  absl::StatusOr<LossSums> ForwardBackward(const Batch& batch, uint64_t seed,
                                           int64_t step, int micro_batch,
                                           const float* weights,
                                           float* gradients,
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

#endif  // TRIBUTARY_WORKER_MODELS_SYNTHETIC_H_
