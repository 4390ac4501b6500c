// Computes a stage of a pipeline: a part of a network, for several
// micro-batches in flight.
#ifndef TRIBUTARY_WORKER_MODELS_STAGES_STAGE_MODEL_H_
#define TRIBUTARY_WORKER_MODELS_STAGES_STAGE_MODEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "worker/data/batch.h"
#include "worker/device/device.h"
#include "worker/models/stages/batch_input.h"
#include "worker/nn/graph.h"
#include "worker/nn/network.h"
#include "worker/nn/network_pass.h"
#include "worker/nn/network_plan.h"
#include "worker/nn/weight_copies.h"

namespace tributary {

// A stage of a model. A slot, numbered from 0, holds the activations of one
// micro-batch. There are NetworkPart::in_flight slots, or more (see AddSlots).
// The calls for a micro-batch are, in this order:
//
//   Begin, Forward, SentValues or, in the last stage, Loss, Backward,
//   SentGradients, Weights if the part computes weights separately, End.
//
// No calls for other slots may come between Begin and Forward, between Forward
// and SentValues or Loss, and between Backward and SentGradients.
//
// Values pass between stages as bytes in host memory: for each value that
// crosses the cut, in ascending order, [samples, elements] in the device's
// number format. See Model for devices and weights. Not thread-safe.
class StageModel {
 public:
  // Returns the errors of Network::Create. `device` must outlive the result.
  // `info` describes the data that `graph` was built for. See Network::Create
  // for `shared`.
  static absl::StatusOr<std::unique_ptr<StageModel>> Create(
      Graph graph, const DataInfo& info, int64_t max_samples, Device* device,
      const NetworkPart& part, void* shared = nullptr);

  const NetworkStructure& structure() const { return network_->structure(); }
  // Must be called when the weights have changed, while no micro-batch is in
  // flight.
  void RenewWeights() { copies_->Renew(); }
  // Adds slots until there are at least `count`. Returns ResourceExhausted if
  // memory does not suffice.
  absl::Status AddSlots(int count);
  // True if the stage reads the samples of batches, or their targets.
  bool reads_batches() const {
    return structure().plan.input >= 0 || is_last();
  }
  // True if the stage computes the loss.
  bool is_last() const { return structure().plan.target >= 0; }
  // The bytes of all values that cross the cut before, or behind, the stage.
  int64_t ReceivedBytes(int64_t samples) const;
  int64_t SentBytes(int64_t samples) const;

  // Begins a micro-batch of at least one sample. `batch` is null if
  // reads_batches() is false. `values` are the ReceivedBytes bytes from the
  // stage before; null in the first stage. `micro_batch.sample_count` must be
  // set. Returns InvalidArgument if the batch does not suit the model.
  absl::Status Begin(int slot, const Batch* batch, int64_t samples,
                     const char* values,
                     const NetworkPass::MicroBatch& micro_batch);
  // Returns false if the micro-batch must be given up.
  bool Forward(int slot);
  // Returns the values of SentBytes bytes, as parts to send one after the
  // other. Valid until the next call for any slot. Returns the device's error.
  absl::StatusOr<std::vector<absl::string_view>> SentValues(int slot);
  absl::StatusOr<LossSums> Loss(int slot);
  // `gradients` are the SentBytes bytes from the stage behind; null in the last
  // stage.
  void Backward(int slot, const char* gradients);
  // Like SentValues, for the gradients of the values that the stage received.
  absl::StatusOr<std::vector<absl::string_view>> SentGradients(int slot);
  // Computes the gradients of weights that Backward has left out. If parts of
  // gradients come from later stages, BeginWeights and, once these are in the
  // gradients, FinishWeights take its place. Other slots may be used in
  // between.
  void Weights(int slot) { network_->pass(slot)->Weights(); }
  void BeginWeights(int slot) { network_->pass(slot)->BeginWeights(); }
  void FinishWeights(int slot) { network_->pass(slot)->FinishWeights(); }
  // True if Backward computes gradients to which it adds parts from later
  // stages, which must then be there.
  bool backward_needs_parts() const;
  void End(int slot) { network_->pass(slot)->End(); }

  // Evaluates a batch, in slot 0. The arguments are as in Begin. SentEvaluation
  // or, in the last stage, EvaluationLoss must follow.
  absl::Status Evaluate(const Batch* batch, int64_t samples, const char* values,
                        const float* weights);
  absl::StatusOr<std::vector<absl::string_view>> SentEvaluation();
  absl::StatusOr<LossSums> EvaluationLoss();

 private:
  using Crossings = std::vector<NetworkPlan::Crossing>;
  using Place = int64_t NetworkPlan::Crossing::*;

  StageModel(std::unique_ptr<WeightCopies> copies,
             std::unique_ptr<Network> network, const DataInfo& info,
             Device* device);

  absl::StatusOr<MicroBatchInput> InputOf(const Batch* batch, int64_t samples);
  void Write(int slot, const Crossings& crossings, Place place,
             const char* bytes);
  absl::StatusOr<std::vector<absl::string_view>> Read(
      int slot, const Crossings& crossings, Place place);

  const std::unique_ptr<WeightCopies> copies_;
  const std::unique_ptr<Network> network_;
  Device* const device_;
  BatchInput input_;
  std::vector<int64_t> samples_;  // By slot.
  // What Read returns from devices with their own memory.
  std::vector<std::string> staging_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_MODELS_STAGES_STAGE_MODEL_H_
