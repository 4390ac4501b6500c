// What the trainer sees of a neural network: a parameter table, initial values,
// and the loss and gradient of one leaf.
#ifndef TRIBUTARY_WORKER_MODELS_MODEL_H_
#define TRIBUTARY_WORKER_MODELS_MODEL_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/parameters/parameter_table.h"
#include "proto/job.pb.h"
#include "worker/data/batch.h"
#include "worker/device/device.h"
#include "worker/nn/step_observer.h"  // StepObserver, LossSums.
#include "worker/nn/weight_copies.h"

namespace tributary {

// A network planned for leaves of up to a fixed number of samples. Holds
// activations and scratch memory, planned once: no allocation in a step. Not
// thread-safe: one instance for each computing thread; instances share nothing.
//
// Weights and gradients are arenas laid out by ArenaLayout, in device memory,
// owned by the caller.
class Model {
 public:
  virtual ~Model() = default;

  // The same for every leaf size and device. `chunk_elements` is left for the
  // caller to set.
  virtual const ParameterTable& table() const = 0;

  // Of the device's memory, for activations and what backward needs of them,
  // and for the next leaf; arenas are the caller's.
  virtual int64_t memory_bytes() const = 0;

  // Writes version 0: a pure function of the seed. `weights` is a host arena of
  // layout.arena_elements() elements; gaps are set to zero.
  virtual void Initialize(uint64_t seed, const ArenaLayout& layout,
                          float* weights) const = 0;

  // The batch will probably be the next one that ForwardBackward is given:
  // where the device has memory of its own, it is brought there beside what is
  // being computed. Never changes a result. Also from StepObserver::DeviceBusy.
  virtual void Prefetch(std::shared_ptr<const Batch> /*batch*/) {}

  // Forward and backward of one leaf in training mode. Every element of
  // `gradients` is written (gaps included: zero) with the gradient of the *sum*
  // of the losses, those of group STATISTICS with what OptimizerGroup says. An
  // empty batch writes zeros. `step` and `micro_batch` key the dropout. Aborted
  // if the observer said so: the gradients are then undefined.
  virtual absl::StatusOr<LossSums> ForwardBackward(
      const Batch& batch, uint64_t seed, int64_t step, int micro_batch,
      const float* weights, float* gradients, StepObserver* observer) = 0;

  // OK, or why a device that could capture its work does not any more (see
  // Network): steps take longer, to the same result.
  virtual absl::Status capture_status() const { return absl::OkStatus(); }

  // Forward only, in evaluation mode (no dropout; batch norm by its running
  // statistics). The batch may be smaller than planned.
  virtual absl::StatusOr<LossSums> Evaluate(const Batch& batch,
                                            const float* weights) = 0;

  // gpt only (Unimplemented otherwise): logits[vocabulary] of the token after
  // `tokens`, of which the last context() are seen.
  virtual absl::Status NextTokenLogits(absl::Span<const int32_t> tokens,
                                       const float* weights,
                                       absl::Span<float> logits) = 0;
};

// What a model of this kind takes, without taking it.
struct ModelMemory {
  int64_t activation_bytes = 0;  // As Model::memory_bytes.
  int64_t arena_bytes = 0;       // Of all weights, or all gradients.
};

// Arguments and errors as CreateModel's.
absl::StatusOr<ModelMemory> PlanModelMemory(const ModelSpec& spec,
                                            const DataInfo& info,
                                            int64_t max_samples,
                                            const Device& device);

// `info` describes the data the model will see; `max_samples` is the largest
// batch it will be given. InvalidArgument, naming the job's field, when the
// model cannot be built on such data or its sizes make no sense. `device` must
// outlive the model.
//
// `copies`, which must outlive the model, are shared with other models of the
// same spec that are given the same weights; their owner says when these have
// changed. Null: the model makes copies of its own anew in every call.
absl::StatusOr<std::unique_ptr<Model>> CreateModel(
    const ModelSpec& spec, const DataInfo& info, int64_t max_samples,
    Device* device, WeightCopies* copies = nullptr);

// What devices are made with for the job.
Precision PrecisionOf(const JobSpec& job);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_MODELS_MODEL_H_
