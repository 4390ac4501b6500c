// Executes a graph: computes the loss and gradients of one micro-batch at a
// time.
#ifndef TRIBUTARY_WORKER_NN_NETWORK_H_
#define TRIBUTARY_WORKER_NN_NETWORK_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/parameters/parameter_table.h"
#include "worker/device/device.h"
#include "worker/nn/device_inputs.h"
#include "worker/nn/graph.h"
#include "worker/nn/layers/layer.h"
#include "worker/nn/network_plan.h"
#include "worker/nn/step_observer.h"
#include "worker/nn/weight_copies.h"

namespace tributary {

// A graph planned for micro-batches of up to a fixed number of samples. Owns
// one block of device memory for all activations, gradients of activations and
// saved tensors; nothing is allocated after Create. Arenas are device memory
// laid out by ArenaLayout, owned by the caller.
//
// On devices that capture work, layers run in segments of several megabytes of
// parameters. The weights of a segment are awaited together, and its gradients
// become final together. From the second micro-batch of a size on, the
// operations of a segment are captured and then launched as one. The results
// are bit-identical.
//
// Not thread-safe. Each compute thread uses an instance of its own; instances
// share nothing.
class Network {
 public:
  // `device` must outlive the network. Returns InvalidArgument for a graph that
  // cannot be trained, and ResourceExhausted if it does not fit into memory.
  //
  // `copies` must outlive the network and may be shared with other networks.
  // Their owner invalidates them when the weights change. If null, the network
  // copies the weights in every call.
  static absl::StatusOr<std::unique_ptr<Network>> Create(
      Graph graph, int64_t max_samples, Device* device,
      WeightCopies* copies = nullptr);
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  const Graph& graph() const { return graph_; }
  int64_t max_samples() const { return max_samples_; }
  // Returns the bytes of device memory, excluding shared copies.
  int64_t memory_bytes() const {
    return plan_.bytes +
           (own_copies_ == nullptr ? 0 : own_copies_->memory_bytes()) +
           DeviceInputs::BytesOf(graph_, max_samples_, *device_);
  }

  // Writes initial values. Parameter number p of the table draws from
  // RandomStream{seed, kInitialization, 0, p}. Gaps are zero. `weights` is a
  // host arena of `layout`, which must be the layout of graph().table().
  void Initialize(uint64_t seed, const ArenaLayout& layout,
                  float* weights) const;

  // Starts to transfer a micro-batch to the device. Has no effect on devices
  // that work in host memory. The host memory is read before Prefetch returns.
  // Only the next call of ForwardBackward can use the micro-batch. May be
  // called from StepObserver::DeviceBusy.
  void Prefetch(const MicroBatchInput& micro_batch);

  // Computes forward and backward in training mode, as described for
  // Model::ForwardBackward. Layer number i of the graph draws from
  // RandomStream{seed, kDropout, step, micro_batch_number * 4096 + i}. Requires
  // `micro_batch.samples` in [0, max_samples()].
  //
  // `observer` may be null. For an empty micro-batch, WeightsNeeded is called
  // once, for all weights: none is read, but the gradients must not be sent
  // before the step can begin. Returns Aborted if the observer requested it.
  absl::StatusOr<LossSums> ForwardBackward(const MicroBatchInput& micro_batch,
                                           uint64_t seed, int64_t step,
                                           int micro_batch_number,
                                           const float* weights,
                                           float* gradients,
                                           StepObserver* observer);

  // Returns OK, or the reason why a device that captures has stopped capturing.
  // Operations are then queued one by one, with the same result.
  const absl::Status& capture_status() const { return capture_status_; }

  // Computes forward in evaluation mode.
  absl::StatusOr<LossSums> Evaluate(const MicroBatchInput& micro_batch,
                                    const float* weights);
  // Like Evaluate, but without targets. Returns the loss's input, [samples,
  // elements per sample], in device memory, valid until the next call. Requires
  // at least one sample.
  const Real* Predict(int64_t samples, const void* input, const float* weights);

 private:
  struct Range {
    int64_t begin = 0;
    int64_t end = 0;
  };
  // Layers [begin, end), whose operations need no host work in between.
  struct Segment {
    int begin = 0;
    int end = 0;
    // Backward of this segment makes the gradients of this parameter and all
    // later ones final; -1 if it makes none final.
    int ready_parameter = -1;
  };
  // Captured segments for micro-batches that agree in all arguments of the
  // captured operations.
  struct Captures {
    uint64_t seed = 0;
    int64_t samples = 0;
    const float* weights = nullptr;
    float* gradients = nullptr;
    // True once such a micro-batch has been computed: working memory has then
    // grown to the required size, and libraries have selected and loaded their
    // kernels.
    bool computed = false;
    std::vector<std::unique_ptr<CapturedWork>> forward, backward;
  };
  // A micro-batch in progress.
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

  void CopyConstants() const;
  void FindRanges();
  void FindSegments();
  void* At(int64_t place) const;
  Real* RealAt(int64_t place) const { return static_cast<Real*>(At(place)); }
  void BeginCall() const;
  void CopyIn(const MicroBatchInput& micro_batch);
  // Like CopyIn, for a micro-batch that inputs_ has transferred.
  void TakePrefetched(const MicroBatchInput& micro_batch);
  LayerCall CallOf(int64_t samples, bool training) const;
  // Returns the number of the micro-batch's target rows that count, as the loss
  // will report it.
  int64_t CountRows(const MicroBatchInput& micro_batch) const;
  // Returns the captures for micro-batches with the pass's arguments, or null
  // if the pass must neither capture nor launch anything.
  Captures* CapturesOf(const Pass& pass);
  // Queue the operations between input and loss. QueueForward returns false if
  // the micro-batch was given up.
  bool QueueForward(Pass* pass);
  void QueueBackward(Pass* pass);
  // Runs work() and captures it, or launches the existing capture. With null
  // `captures`, only runs work().
  template <typename Work>
  void Run(std::unique_ptr<CapturedWork>* captured, const Work& work);
  // Prepares weight copies, which captured operations do not create.
  void PrepareWeights(const Segment& segment, const float* weights) const;
  LayerTensors TensorsOf(int node, bool training, const float* weights) const;
  bool WaitForWeights(int node, StepObserver* observer) const;
  void Forward(int node, const LayerCall& call, const float* weights) const;
  void Backward(int node, const LayerCall& call, const float* weights,
                float* gradients) const;
  void BeginLoss(int64_t samples, int64_t place, Real* gradient) const;
  absl::StatusOr<LossSums> AwaitLoss() const;

  const Graph graph_;
  const int64_t max_samples_;
  Device* const device_;
  const ArenaLayout layout_;
  const NetworkPlan plan_;
  const Device::Memory memory_;
  // Null if the device works in host memory.
  const std::unique_ptr<DeviceInputs> inputs_;
  // Null if copies are shared.
  const std::unique_ptr<WeightCopies> own_copies_;
  WeightCopies* const copies_;
  std::vector<std::vector<Range>> weights_needed_;  // By node.
  std::vector<Range> gaps_;                         // Gaps of the arena.
  std::vector<Segment> segments_;                   // In forward order.
  std::vector<std::unique_ptr<Captures>> captures_;
  absl::Status capture_status_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_NETWORK_H_
