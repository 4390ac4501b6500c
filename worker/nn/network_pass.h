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
#include "worker/nn/segment_captures.h"
#include "worker/nn/step_observer.h"
#include "worker/nn/weight_copies.h"
#include "worker/nn/weights_view.h"

namespace tributary {

// Computes micro-batches one after the other. Owns the device memory for the
// activations, the gradients of activations and the saved tensors of one
// micro-batch; a network that computes two micro-batches at once needs two
// passes. The calls for a micro-batch in training are, in this order:
//
//   Begin, Forward for ranges that cover the layers, BeginLoss, AwaitLoss and,
//   before or after it, Backward for ranges that cover the layers, End.
//
// If the device runs operations asynchronously, Forward and Backward only queue
// them. Not thread-safe.
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
  };

  // `inputs` transfers micro-batches to the device; it is null if the device
  // works in host memory. All arguments must outlive the pass. Returns
  // ResourceExhausted if device memory does not suffice.
  static absl::StatusOr<std::unique_ptr<NetworkPass>> Create(
      const NetworkStructure* structure, Device* device, DeviceInputs* inputs,
      WeightCopies* copies);

  // Begins a micro-batch of at least one sample: copies it into the network's
  // memory, and sets the gaps between gradients to zero.
  void Begin(const MicroBatchInput& input, const MicroBatch& micro_batch);
  // Forward of layers [begin, end), and Backward of these layers in reverse
  // order. The range must consist of whole segments. Forward waits for the
  // weights of each segment; it returns false if the micro-batch must be given
  // up. Backward reports final gradients after each segment.
  bool Forward(int begin, int end);
  void Backward(int begin, int end);
  // Computes the loss of the micro-batch and the gradient of its predictions.
  void BeginLoss();
  // Blocks until the loss has been computed.
  absl::StatusOr<LossSums> AwaitLoss();
  // Ends the micro-batch, all operations of which were queued.
  void End() { captures_.End(); }
  // Makes the device draw the random numbers of this pass. Begin does so, too;
  // another pass on the same device changes it.
  void SelectRandomNumbers() const;

  // Computes forward of all layers in evaluation mode. Returns the predictions,
  // which are the input of the loss, in device memory.
  const Real* Predict(const MicroBatchInput& input, const float* weights);
  // Like BeginLoss, for the micro-batch that Predict has computed.
  void BeginEvaluationLoss(int64_t samples);

  // Returns OK, or the reason why the device could not capture operations.
  const absl::Status& capture_status() const { return captures_.status(); }

 private:
  NetworkPass(const NetworkStructure* structure, Device* device,
              DeviceInputs* inputs, WeightCopies* copies,
              Device::Memory memory);

  void CopyConstants() const;
  void* At(int64_t place) const;
  Real* RealAt(int64_t place) const { return static_cast<Real*>(At(place)); }
  // Copies the input and, if there are any, the targets of a micro-batch into
  // the network's memory, and rounds the input to the device's number format if
  // needed.
  void CopyIn(const MicroBatchInput& input);
  // Does the work of CopyIn on devices with their own memory: queues the copy
  // of the micro-batch from the device buffers of inputs_ to the network's
  // memory. The transfer of the micro-batch into these buffers must have been
  // started.
  void TakePrefetched(const MicroBatchInput& input);
  LayerTensors TensorsOf(int layer, bool training, const float* weights) const;
  void ForwardLayer(int layer, const LayerCall& call,
                    const float* weights) const;
  void BackwardLayer(int layer, const LayerCall& call, const float* weights,
                     float* gradients) const;
  // Sets the layer's random stream, excluding the device's random base, and
  // calls run(), and reports its times if they are observed.
  template <typename Work>
  void RunLayer(int layer, const Work& run);

  const NetworkStructure& structure_;
  Device* const device_;
  DeviceInputs* const inputs_;
  WeightCopies* const copies_;
  const Device::Memory memory_;
  SegmentCaptures captures_;
  LossComputation loss_;

  // The micro-batch in training.
  MicroBatch micro_batch_;
  LayerCall call_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_NETWORK_PASS_H_
