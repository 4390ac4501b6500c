// The trainer's view of a model that the program computes.
#ifndef TRIBUTARY_LIBRARY_PROGRAM_MODEL_H_
#define TRIBUTARY_LIBRARY_PROGRAM_MODEL_H_

#include <memory>
#include <utility>

#include "library/handover.h"
#include "library/parameter_declarations.h"
#include "worker/device/device.h"
#include "worker/models/model.h"

namespace tributary {

// A model that the user's program computes. Passes each micro-batch, and each
// piece of the evaluation data, to the program and waits for the result. Does
// not pass on micro-batches without samples, whose gradients are zero.
class ProgramModel final : public Model {
 public:
  // If `device` has its own memory, the program computes in that memory,
  // otherwise in host memory. `device` and `handover` must outlive this object.
  ProgramModel(std::shared_ptr<const ParameterDeclarations> declared,
               Device* device, Handover* handover)
      : declared_(std::move(declared)),
        device_(device->has_own_memory() ? device : nullptr),
        handover_(handover) {}

  const ParameterTable& table() const override { return declared_->table(); }
  // Returns 0, because the memory that the program uses is not known.
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
  // Returns Unimplemented.
  absl::Status NextTokenLogits(absl::Span<const int32_t> tokens,
                               const float* weights,
                               absl::Span<float> logits) override;

 private:
  const std::shared_ptr<const ParameterDeclarations> declared_;
  Device* const device_;  // Null if the program computes in host memory.
  Handover* const handover_;
};

}  // namespace tributary

#endif  // TRIBUTARY_LIBRARY_PROGRAM_MODEL_H_
