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
#include "worker/nn/gradient_sink.h"
#include "worker/nn/graph.h"
#include "worker/nn/network_pass.h"
#include "worker/nn/network_structure.h"
#include "worker/nn/step_observer.h"
#include "worker/nn/weight_copies.h"
#include "worker/nn/weights_view.h"

namespace tributary {

// A network, or a part of one, that computes micro-batches of up to a fixed
// number of samples. Owns one block of device memory for all activations,
// gradients of activations and saved tensors; allocates no device memory after
// Create. Weights and gradients are arenas. An arena is one block of device
// memory with all parameters, or all gradients; ArenaLayout defines their
// offsets, and the caller owns the block.
//
// On devices that capture operations, layers run in segments of several
// megabytes of parameters, which are launched as a unit (see SegmentCaptures).
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
  //
  // `part` selects the layers, and how they are computed. The methods that
  // compute a micro-batch require that the part has all layers; users of other
  // parts compute with pass().
  //
  // `shared` is the memory that all passes share: at least SharedBytes of the
  // plan, which other networks may use as well if NetworkPart::shares_memory is
  // set. It must outlive the network. If it is null, the network allocates it.
  static absl::StatusOr<std::unique_ptr<Network>> Create(
      Graph graph, int64_t max_samples, Device* device,
      WeightCopies* copies = nullptr, const NetworkPart& part = {},
      void* shared = nullptr);
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  const Graph& graph() const { return structure_.graph; }
  int64_t max_samples() const { return structure_.max_samples; }
  const NetworkStructure& structure() const { return structure_; }
  // Returns the pass of one of the micro-batches in flight, from 0. Create
  // makes NetworkPart::in_flight passes.
  NetworkPass* pass(int slot) const { return passes_[slot].get(); }
  // Makes passes until there are at least `count`. Returns ResourceExhausted if
  // memory does not suffice.
  absl::Status AddPasses(int count);
  // Returns the size in bytes of the device memory that this network owns. This
  // excludes shared copies of the weights.
  int64_t memory_bytes() const;

  // Writes the initial weights to `weights`, in host memory, and zeros to the
  // gaps between parameters; see WriteInitialValues.
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
  // calls WeightsView::Await once, for all weights, to wait until the step can
  // begin, and then reports gradients of zero. Returns Aborted if the
  // micro-batch was given up, and the device's error if the device failed.
  absl::StatusOr<LossSums> ForwardBackward(const MicroBatchInput& micro_batch,
                                           uint64_t seed, int64_t step,
                                           int micro_batch_number,
                                           const WeightsView& weights,
                                           GradientSink* gradients,
                                           StepObserver* observer);

  // Returns OK, or the reason why the device could not capture operations for
  // repeated launches. After a failure, the network queues operations one by
  // one, with the same result.
  const absl::Status& capture_status() const {
    return pass(0)->capture_status();
  }

  // Computes forward in evaluation mode. Returns the device's error if it
  // failed.
  absl::StatusOr<LossSums> Evaluate(const MicroBatchInput& micro_batch,
                                    const float* weights);
  // Computes forward in evaluation mode; `micro_batch` needs no targets.
  // Returns the predictions, which are the input of the loss: [samples,
  // elements per sample], in device memory, valid until the next call. Requires
  // at least one sample.
  const Real* Predict(const MicroBatchInput& micro_batch, const float* weights);

  // Returns the names of the layers. Element i is the name of layer number i of
  // StepObserver::OnLayer.
  std::vector<std::string> LayerNames() const;

 private:
  Network(NetworkStructure structure, Device* device)
      : structure_(std::move(structure)),
        device_(device),
        own_shared_(nullptr, [](void*) {}) {}

  void BeginCall() const;
  // Waits for the gradients of the vectors of a micro-batch, if there are any,
  // and copies them to host memory. Returns the device's error.
  absl::Status ReadVectorGradients(int64_t samples, GradientSink* gradients);

  const NetworkStructure structure_;
  Device* const device_;
  // Transfers micro-batches to the device. Null if the device works in host
  // memory.
  std::unique_ptr<DeviceInputs> inputs_;
  WeightCopies* copies_ = nullptr;
  Device::Memory own_shared_;  // Null if the caller owns it.
  void* shared_ = nullptr;     // The memory that all passes share.
  std::vector<std::unique_ptr<NetworkPass>> passes_;  // By slot.
  // Copies of the weights for this network alone; null if the network uses
  // shared copies.
  std::unique_ptr<WeightCopies> own_copies_;
  std::vector<float> input_gradients_;  // Used by ReadVectorGradients.
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_NETWORK_H_
