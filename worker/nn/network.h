// Runs a graph: loss and gradients of one leaf at a time.
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

// A graph planned for leaves of up to a fixed number of samples. Owns one block
// of device memory for all activations, gradients of activations and saved
// tensors; nothing is allocated after Create. Arenas are device memory laid out
// by ArenaLayout, owned by the caller.
//
// On devices that capture work, layers are run in segments of some megabytes of
// parameters: the weights of a segment are waited for together, and its
// gradients become final together. From the second leaf of a size on, what a
// segment queues is captured, and then launched as one. That changes no bit.
//
// Not thread-safe: one instance for each computing thread; instances share
// nothing.
class Network {
 public:
  // `device` must outlive the network. InvalidArgument for a graph that cannot
  // be trained, ResourceExhausted when it does not fit into memory.
  //
  // `copies`, which must outlive the network, too, are shared with others, and
  // their owner says when the weights have changed. Null: the network makes its
  // own anew in every call.
  static absl::StatusOr<std::unique_ptr<Network>> Create(
      Graph graph, int64_t max_samples, Device* device,
      WeightCopies* copies = nullptr);
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  const Graph& graph() const { return graph_; }
  int64_t max_samples() const { return max_samples_; }
  // Bytes of device memory, without that of shared copies.
  int64_t memory_bytes() const {
    return plan_.bytes +
           (own_copies_ == nullptr ? 0 : own_copies_->memory_bytes()) +
           DeviceInputs::BytesOf(graph_, max_samples_, *device_);
  }

  // Initial values: parameter number p of the table takes its numbers from
  // RandomStream{seed, kInitialization, 0, p}. Gaps are zero. `weights` is a
  // host arena of `layout`, which must be that of graph().table().
  void Initialize(uint64_t seed, const ArenaLayout& layout,
                  float* weights) const;

  // Begins to bring a leaf to the device, beside its operations, where it has
  // memory of its own; elsewhere to no effect. The host's memory is read before
  // this returns. The next call of ForwardBackward may be for it; whatever is
  // computed, it is gone after that. Also from StepObserver::DeviceBusy.
  void Prefetch(const MicroBatchInput& micro_batch);

  // Forward and backward in training mode, as Model::ForwardBackward says.
  // Layer number i of the graph draws from
  // RandomStream{seed, kDropout, step, leaf * 4096 + i}. An observer may be
  // null. For an empty leaf it is asked for all weights at once: none is read,
  // but the gradients must not be out before the step can begin. Aborted if the
  // observer said so. `micro_batch.samples` is in [0, max_samples()].
  absl::StatusOr<LossSums> ForwardBackward(const MicroBatchInput& micro_batch,
                                           uint64_t seed, int64_t step,
                                           int micro_batch_number,
                                           const float* weights,
                                           float* gradients,
                                           StepObserver* observer);

  // OK, or why work is not captured any more on a device that captures: it is
  // queued operation by operation then, to the same result.
  const absl::Status& capture_status() const { return capture_status_; }

  // Forward in evaluation mode.
  LossSums Evaluate(const MicroBatchInput& micro_batch, const float* weights);
  // The same without targets: the loss's input, [samples, elements per sample],
  // in device memory, valid until the next call. At least one sample.
  const Real* Predict(int64_t samples, const void* input, const float* weights);

 private:
  struct Range {
    int64_t begin = 0;
    int64_t end = 0;
  };
  // Layers [begin, end), between whose operations the host has nothing to do.
  struct Segment {
    int begin = 0;
    int end = 0;
    // Once its backward is done, the gradients of this parameter and all behind
    // it have become final; -1: of none that were not before.
    int ready_parameter = -1;
  };
  // The work of the segments of leaves that are alike in all that captured
  // operations are given.
  struct Captures {
    uint64_t seed = 0;
    int64_t samples = 0;
    const float* weights = nullptr;
    float* gradients = nullptr;
    // Such a leaf has been computed: working memory has grown, and libraries
    // have chosen and loaded what they need.
    bool computed = false;
    std::vector<std::unique_ptr<CapturedWork>> forward, backward;
  };
  // A leaf under way.
  struct Pass {
    LayerCall call;
    uint64_t seed = 0;
    const float* weights = nullptr;
    float* gradients = nullptr;
    StepObserver* observer = nullptr;  // May be null.
    Captures* captures = nullptr;      // Null: nothing is captured or launched.
  };

  Network(Graph graph, int64_t max_samples, Device* device, ArenaLayout layout,
          NetworkPlan plan, Device::Memory memory,
          std::unique_ptr<DeviceInputs> inputs,
          std::unique_ptr<WeightCopies> own_copies, WeightCopies* copies);

  void FindRanges();
  void FindSegments();
  void* At(int64_t place) const;
  Real* RealAt(int64_t place) const { return static_cast<Real*>(At(place)); }
  void BeginCall() const;
  void CopyIn(const MicroBatchInput& micro_batch);
  // The same, from DeviceInputs.
  void TakePrefetched(const MicroBatchInput& micro_batch);
  LayerCall CallOf(int64_t samples, bool training) const;
  // Rows of the leaf's targets that count, as the loss will say.
  int64_t CountRows(const MicroBatchInput& micro_batch) const;
  // Of leaves like this one. Null: nothing of it is to be captured.
  Captures* CapturesOf(const Pass& pass);
  // Queue what is between the input and the loss. False: the leaf was given up.
  bool QueueForward(Pass* pass);
  void QueueBackward(Pass* pass);
  // Does work(), and captures it or, if it has been captured before, launches
  // that; without captures it only does it.
  template <typename Work>
  void Run(std::unique_ptr<CapturedWork>* captured, const Work& work);
  // What captured operations do not make themselves.
  void PrepareWeights(const Segment& segment, const float* weights) const;
  LayerTensors TensorsOf(int node, bool training, const float* weights) const;
  bool WaitForWeights(int node, StepObserver* observer) const;
  void Forward(int node, const LayerCall& call, const float* weights) const;
  void Backward(int node, const LayerCall& call, const float* weights,
                float* gradients) const;
  void BeginLoss(int64_t samples, int64_t place, Real* gradient) const;
  LossSums AwaitLoss() const;

  const Graph graph_;
  const int64_t max_samples_;
  Device* const device_;
  const ArenaLayout layout_;
  const NetworkPlan plan_;
  const Device::Memory memory_;
  const std::unique_ptr<DeviceInputs> inputs_;      // Null: it has no memory.
  const std::unique_ptr<WeightCopies> own_copies_;  // Null: shared ones.
  WeightCopies* const copies_;
  std::vector<std::vector<Range>> weights_needed_;  // Of each node.
  std::vector<Range> gaps_;                         // Of the arena.
  std::vector<Segment> segments_;                   // In forward order.
  std::vector<std::unique_ptr<Captures>> captures_;
  absl::Status capture_status_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_NETWORK_H_
