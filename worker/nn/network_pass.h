// Forward and backward of one micro-batch through the layers of a network.
#ifndef TRIBUTARY_WORKER_NN_NETWORK_PASS_H_
#define TRIBUTARY_WORKER_NN_NETWORK_PASS_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/device/device.h"
#include "worker/nn/device_inputs.h"
#include "worker/nn/gradient_sink.h"
#include "worker/nn/layers/layer.h"
#include "worker/nn/layers/loss.h"
#include "worker/nn/network_structure.h"
#include "worker/nn/pass_memory.h"
#include "worker/nn/segment_captures.h"
#include "worker/nn/step_observer.h"
#include "worker/nn/weight_copies.h"
#include "worker/nn/weights_view.h"

namespace tributary {

// Computes micro-batches, one after the other, through a part of a network, by
// default the whole network. Owns the device memory for the activations, the
// gradients of activations and the saved tensors of one micro-batch, except for
// the memory that passes share. If several micro-batches are in flight, each
// has a pass. The calls for a micro-batch in training are, in this order:
//
//   Begin, Forward for ranges that cover the part's layers, BeginLoss and
//   AwaitLoss in the last part of a network, Backward for ranges that cover the
//   layers, Weights if NetworkPart::separate_weights, End.
//
// AwaitLoss may also follow Backward. In parts of a network, the caller writes
// the values of NetworkPlan::received before Forward, and the gradients of
// NetworkPlan::sent before Backward; and it reads the values of `sent` after
// Forward, and the gradients of `received` after Backward, before calls for
// other micro-batches. Layers that add to gradients of later parts (see
// NetworkPlan::Node::awaits_later_parts) find these in the arena of gradients;
// FinishWeights computes them apart from the others.
//
// If the device runs operations asynchronously, Forward, Backward and Weights
// only queue them. Not thread-safe.
class NetworkPass {
 public:
  // A micro-batch in training. The pointers must stay valid until End.
  struct MicroBatch {
    uint64_t seed = 0;
    int64_t step = 0;
    int number = 0;
    const WeightsView* weights = nullptr;
    GradientSink* gradients = nullptr;
    StepObserver* observer = nullptr;  // May be null.
    // The number of samples (tokens) that count, in parts of a network that do
    // not get the targets; -1: counted from the targets.
    int64_t sample_count = -1;
  };

  // `inputs` transfers micro-batches to the device; it is null if the device
  // works in host memory. `shared` is the memory that the passes of the
  // structure share, of plan.bytes - plan.kept_bytes bytes. All arguments must
  // outlive the pass. Returns ResourceExhausted if device memory does not
  // suffice.
  static absl::StatusOr<std::unique_ptr<NetworkPass>> Create(
      const NetworkStructure* structure, Device* device, DeviceInputs* inputs,
      WeightCopies* copies, void* shared);

  // Begins a micro-batch of at least one sample: copies it into the network's
  // memory, and sets the gaps between the part's gradients to zero. A part that
  // does not read the input ignores it, except for its number of samples.
  void Begin(const MicroBatchInput& input, const MicroBatch& micro_batch);
  // Forward of layers [begin, end), and Backward of these layers in reverse
  // order. The range must consist of whole segments. Forward waits for the
  // weights of each segment; it returns false if the micro-batch must be given
  // up. Backward reports final gradients after each segment, unless weights are
  // separate.
  bool Forward(int begin, int end);
  void Backward(int begin, int end);
  // Computes the gradients of weights that Backward has left out, and reports
  // final gradients.
  void Weights();
  // Divide Weights in two: BeginWeights leaves out the layers that add to
  // gradients of later parts, and reports nothing. There may be calls for other
  // micro-batches in between.
  void BeginWeights();
  void FinishWeights();
  // Computes the loss of the micro-batch and the gradient of its predictions.
  void BeginLoss();
  // Blocks until the loss has been computed.
  absl::StatusOr<LossSums> AwaitLoss();
  // Ends the micro-batch, all operations of which were queued.
  void End() { captures_.End(); }
  // Makes the device draw the random numbers of this pass. Begin does so, too;
  // another pass on the same device changes it.
  void SelectRandomNumbers() const;
  // Returns the tensor at a place of the plan, or null if `place` is -1.
  void* At(int64_t place) const { return memory_.At(place); }

  // Computes forward of the part's layers in evaluation mode: BeginEvaluation
  // copies the samples, and Evaluate computes. In between, the caller writes
  // the values of NetworkPlan::received to their evaluation_place. Evaluate
  // returns the predictions, which are the input of the loss, in device memory,
  // or null if the part is not the last one of the network.
  void BeginEvaluation(const MicroBatchInput& input);
  const Real* Evaluate(int64_t samples, const float* weights);
  // Like BeginLoss, for the micro-batch that Evaluate has computed.
  void BeginEvaluationLoss(int64_t samples);

  // Returns OK, or the reason why the device could not capture operations.
  const absl::Status& capture_status() const { return captures_.status(); }

 private:
  using Places = PassMemory::Places;

  NetworkPass(const NetworkStructure* structure, Device* device,
              PassMemory memory);

  void ForwardLayer(int layer, Places places, const LayerCall& call,
                    const float* weights) const;
  // Computes forward of the layers of a group again.
  void ForwardAgain(int group);
  void BackwardLayer(int layer, const LayerCall& call, const float* weights,
                     float* gradients) const;
  void WeightsOfLayer(int layer, const LayerCall& call, const float* weights,
                      float* gradients) const;
  // Computes the separate weights of the segment's layers that add to gradients
  // of later parts, or of the others.
  void WeightsOfSegment(const NetworkStructure::Segment& segment,
                        bool awaiting);
  // Sets the segment's frozen gradients to zero, and reports its gradients.
  void ZeroFrozen(const NetworkStructure::Segment& segment) const;
  void Report(const NetworkStructure::Segment& segment) const;
  // Sets the layer's random stream, excluding the device's random base, and
  // calls run(), and reports its times if they are observed.
  template <typename Work>
  void RunLayer(int layer, const Work& run);

  const NetworkStructure& structure_;
  Device* const device_;
  const PassMemory memory_;
  SegmentCaptures captures_;
  LossComputation loss_;

  // The micro-batch in training.
  MicroBatch micro_batch_;
  LayerCall call_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_NETWORK_PASS_H_
