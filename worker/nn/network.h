// Executes a graph: computes the loss and gradients of one micro-batch at a
// time.
#ifndef TRIBUTARY_WORKER_NN_NETWORK_H_
#define TRIBUTARY_WORKER_NN_NETWORK_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/parameters/arena_layout.h"
#include "worker/device/device.h"
#include "worker/nn/device_inputs.h"
#include "worker/nn/graph.h"
#include "worker/nn/layers/layer.h"
#include "worker/nn/layers/loss.h"
#include "worker/nn/network_plan.h"
#include "worker/nn/step_observer.h"
#include "worker/nn/weight_copies.h"

namespace tributary {

// A network that computes micro-batches of up to a fixed number of samples.
// Owns one block of device memory for all activations, gradients of activations
// and saved tensors; allocates no device memory after Create. Weights and
// gradients are arenas. An arena is one block of device memory with all
// parameters, or all gradients; ArenaLayout defines their offsets, and the
// caller owns the block.
//
// On devices that capture operations (see Capture), layers run in segments:
// groups of consecutive layers with several megabytes of parameters. The
// network waits for all weights of a segment together, and all gradients of a
// segment become final together. When a second micro-batch with the same seed,
// number of samples and arenas is computed, the operations of each segment are
// captured; for all further such micro-batches they are launched as a unit.
// Micro-batches with rows that do not count (label -1) are not captured. The
// results are bit-identical with and without capture.
//
// Not thread-safe. Each compute thread uses an instance of its own; instances
// share nothing.
class Network {
 public:
  // `device` must outlive the network. Returns InvalidArgument for a graph that
  // cannot be trained or has more than 4,096 layers, and ResourceExhausted if
  // it does not fit into memory.
  //
  // `copies` holds the copies of the weights that matrix products read. It must
  // outlive the network and may be shared with other networks. The owner of
  // `copies` must call Renew when the weights change. If `copies` is null, the
  // network copies the weights in every call.
  static absl::StatusOr<std::unique_ptr<Network>> Create(
      Graph graph, int64_t max_samples, Device* device,
      WeightCopies* copies = nullptr);
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  const Graph& graph() const { return graph_; }
  int64_t max_samples() const { return max_samples_; }
  // Returns the size in bytes of the device memory that this network owns. This
  // excludes shared copies of the weights.
  int64_t memory_bytes() const {
    return plan_.bytes +
           (own_copies_ == nullptr ? 0 : own_copies_->memory_bytes()) +
           DeviceInputs::BytesOf(graph_, max_samples_, *device_);
  }

  // Writes the initial weights to `weights`, in host memory, and zeros to the
  // gaps between parameters. `layout` must be the layout of graph().table().
  // The values of parameter number p of graph().table() are drawn from
  // RandomStream{seed, kInitialization, 0, p}.
  void Initialize(uint64_t seed, const ArenaLayout& layout,
                  float* weights) const;

  // Starts to transfer a micro-batch to the device. Has no effect on devices
  // that work in host memory. The host memory is read before Prefetch returns.
  // Only the next call of ForwardBackward can use the micro-batch. May be
  // called from StepObserver::DeviceBusy.
  void Prefetch(const MicroBatchInput& micro_batch);

  // Computes forward and backward in training mode, as described for
  // Model::ForwardBackward. Layer number i of the graph draws its random
  // numbers from RandomStream{seed, kDropout, step, micro_batch_number * 4096 +
  // i}. Requires `micro_batch.samples` in [0, max_samples()].
  //
  // `observer` may be null. For an empty micro-batch, reads no weights, but
  // calls WeightsNeeded once, for all weights, to wait until the step can
  // begin, and then reports gradients of zero. Returns Aborted if WeightsNeeded
  // returned false, and the device's error if the device failed.
  absl::StatusOr<LossSums> ForwardBackward(const MicroBatchInput& micro_batch,
                                           uint64_t seed, int64_t step,
                                           int micro_batch_number,
                                           const float* weights,
                                           float* gradients,
                                           StepObserver* observer);

  // Returns OK, or the reason why the device could not capture operations for
  // repeated launches. After a failure, the network queues operations one by
  // one, with the same result.
  const absl::Status& capture_status() const { return capture_status_; }

  // Computes forward in evaluation mode. Returns the device's error if it
  // failed.
  absl::StatusOr<LossSums> Evaluate(const MicroBatchInput& micro_batch,
                                    const float* weights);
  // Computes forward in evaluation mode, without targets. Returns the
  // predictions, which are the input of the loss: [samples, elements per
  // sample], in device memory, valid until the next call. Requires at least one
  // sample.
  const Real* Predict(int64_t samples, const void* input, const float* weights);

  // Returns the names of the layers. Element i is the name of layer number i of
  // LayerObserver::OnLayer.
  std::vector<std::string> LayerNames() const;

 private:
  struct Range {
    int64_t begin = 0;
    int64_t end = 0;
  };
  // A group of consecutive layers, [begin, end). The network waits for all
  // weights of a segment before it queues the first operation of the segment.
  struct Segment {
    int begin = 0;
    int end = 0;
    // The ranges of the weights that forward of the segment reads, in ascending
    // order.
    std::vector<Range> weights;
    // Index of a parameter. After backward of this segment, the gradients of
    // this parameter and of all later parameters are final: no other layer
    // changes them. -1 if no gradients become final.
    int ready_parameter = -1;
    // The ranges of the gradients of frozen parameters (see Graph::Freeze) that
    // become final after this segment. They are set to zero.
    std::vector<Range> frozen;
  };
  // The captured segments of one kind of micro-batch. Micro-batches are of the
  // same kind if they have the same `seed`, `samples`, `weights` and
  // `gradients`, because captured operations contain these values as arguments.
  struct Captures {
    uint64_t seed = 0;
    int64_t samples = 0;
    const float* weights = nullptr;
    float* gradients = nullptr;
    // True once a micro-batch of this kind has been computed. Capture is
    // possible only then, because working memory has grown to the required
    // size, and libraries have selected and loaded their kernels.
    bool computed = false;
    std::vector<std::unique_ptr<CapturedWork>> forward, backward;
  };
  // The arguments and the state of a micro-batch in progress.
  struct Pass {
    LayerCall call;
    uint64_t seed = 0;
    const float* weights = nullptr;
    float* gradients = nullptr;
    StepObserver* observer = nullptr;  // May be null.
    Captures* captures = nullptr;  // Null if nothing is captured or launched.
  };

  Network(Graph graph, int64_t max_samples, Device* device, ArenaLayout layout,
          NetworkPlan plan, Device::Memory memory,
          std::unique_ptr<DeviceInputs> inputs,
          std::unique_ptr<WeightCopies> own_copies, WeightCopies* copies);

  static LayerObserver* LayersOf(const Pass& pass) {
    return pass.observer == nullptr ? nullptr : pass.observer->layers();
  }
  void CopyConstants() const;
  void FindGaps();
  void FindSegments();
  void FindFrozen();
  // Returns the ranges of the weights that forward of layers [begin, end)
  // reads.
  std::vector<Range> WeightsOf(int begin, int end) const;
  void* At(int64_t place) const;
  Real* RealAt(int64_t place) const { return static_cast<Real*>(At(place)); }
  void BeginCall() const;
  // Copies the input and, if there are any, the targets of a micro-batch into
  // the network's memory, and rounds the input to the device's number format if
  // needed.
  void CopyIn(const MicroBatchInput& micro_batch);
  // Does the work of CopyIn on devices with their own memory: queues the copy
  // of the micro-batch from the device buffers of inputs_ to the network's
  // memory. The transfer of the micro-batch into these buffers must have been
  // started.
  void TakePrefetched(const MicroBatchInput& micro_batch);
  LayerCall CallOf(int64_t samples, bool training) const;
  // Returns the captured operations of micro-batches with the same arguments as
  // `pass`, or null if `pass` must neither capture nor launch anything.
  Captures* CapturesOf(const Pass& pass);
  // QueueForward queues the operations between the input and the loss, and
  // returns false if the observer stopped the micro-batch. QueueBackward queues
  // the operations after the loss.
  bool QueueForward(Pass* pass);
  void QueueBackward(Pass* pass);
  // Launches `*captured`. If `*captured` is null or cannot be launched,
  // captures the operations that work() queues, and launches them. If
  // `captured` itself is null, or capturing fails, calls work() without
  // capturing.
  template <typename Work>
  void Run(std::unique_ptr<CapturedWork>* captured, const Work& work);
  // Makes the copies of the weights that the segment reads (see WeightCopies).
  // Must be called before captured operations are launched, because these
  // operations only read the copies.
  void PrepareWeights(const Segment& segment, const float* weights) const;
  LayerTensors TensorsOf(int node, bool training, const float* weights) const;
  bool WaitForWeights(const Segment& segment, StepObserver* observer) const;
  void Forward(int node, const LayerCall& call, const float* weights) const;
  void Backward(int node, const LayerCall& call, const float* weights,
                float* gradients) const;
  void BeginLoss(const LossSpec& loss, int64_t samples, int64_t place,
                 Real* gradient);
  absl::StatusOr<LossSums> AwaitLoss();

  const Graph graph_;
  const int64_t max_samples_;
  Device* const device_;
  const ArenaLayout layout_;
  const NetworkPlan plan_;
  const Device::Memory memory_;
  // Transfers micro-batches to the device. Null if the device works in host
  // memory.
  const std::unique_ptr<DeviceInputs> inputs_;
  // Copies of the weights for this network alone; null if the network uses
  // shared copies.
  const std::unique_ptr<WeightCopies> own_copies_;
  WeightCopies* const copies_;
  std::vector<Range> gaps_;        // Gaps between parameters.
  std::vector<Segment> segments_;  // In forward order.
  std::vector<std::unique_ptr<Captures>> captures_;
  absl::Status capture_status_;
  LossComputation loss_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_NETWORK_H_
