// Placement of a network's tensors in memory.
#ifndef TRIBUTARY_WORKER_NN_NETWORK_PLAN_H_
#define TRIBUTARY_WORKER_NN_NETWORK_PLAN_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/device/device.h"
#include "worker/nn/graph.h"
#include "worker/nn/layers/layer.h"
#include "worker/nn/network_part.h"

namespace tributary {

// The place of each tensor of a network in one block of memory. Tensors are
// given as offsets from the start of the block, in bytes; -1 stands for a
// tensor that does not exist.
struct NetworkPlan {
  // The tensors of a layer that forward reads and writes in training.
  struct Activations {
    std::array<int64_t, kMaxLayerInputs> inputs{-1, -1};
    int64_t output = -1;
    int64_t saved = -1;
    // Output of the following layer, a GELU, if this layer computes that GELU
    // (LayerSpec::fuses_gelu); otherwise -1.
    int64_t gelu_output = -1;
  };
  struct Node {
    int64_t constants = -1;  // Place of LayerSpec::constants, written once.
    Activations forward;
    // Where backward finds the activations. Equal to `forward` unless they are
    // computed again.
    Activations backward;
    // Offsets of the layer's inputs, in the network's block of memory, outside
    // of training. Layers that are the identity outside of training are then
    // skipped (LayerSpec::identity_in_evaluation).
    std::array<int64_t, kMaxLayerInputs> evaluation_inputs{-1, -1};
    // True if this layer is a GELU whose output the preceding layer computes,
    // or a sum that the following layer computes. Forward of this layer is then
    // not called.
    bool forward_elsewhere = false;
    // True if forward of this layer is computed again before backward of its
    // group (see `groups`); `again_elsewhere` is like `forward_elsewhere`.
    bool again = false;
    bool again_elsewhere = false;
    // The number of the preceding layer, a sum, if this layer computes that sum
    // (LayerSpec::fuses_sum); otherwise -1.
    int sum = -1;
    int64_t gelu_input = -1;  // Place of LayerTensors::gelu_input, or -1.

    // True if Backward of this layer must be called. False if the output
    // depends on no parameters or vectors (see NetworkUses), or if this layer
    // is a GELU whose gradient the following layer computes.
    bool has_backward = false;
    // True if the gradients of this layer's parameters are computed in the
    // weights pass. Backward then computes the gradients of the inputs, and is
    // not called if there are none.
    bool separate_weights = false;
    // True if the gradient of parameter 0 is added to the part that layers of
    // later parts of the network have computed.
    bool awaits_later_parts = false;
    int64_t output_gradient = -1;
    std::array<int64_t, kMaxLayerInputs> input_gradients{-1, -1};
    std::array<bool, kMaxLayerInputs> accumulate{};
    // Offsets of temporary buffers for the gradients of inputs; -1 for an input
    // that needs none. An input needs one if a later layer has already written
    // its part of the input's gradient, and this layer cannot add to that part
    // (see LayerSpec::accumulates).
    std::array<int64_t, kMaxLayerInputs> scratch{-1, -1};
    bool accumulate_weight = false;
    // Index of a parameter. After the last pass of this layer, the gradients of
    // this parameter and of all later parameters of the part are final: no
    // other layer of the part changes them. -1 if no gradients become final.
    int ready_parameter = -1;

    bool computes_input_gradient() const {
      return input_gradients[0] >= 0 || input_gradients[1] >= 0;
    }
  };
  // A value that passes from one part of the network to the next one.
  struct Crossing {
    ValueId value = 0;
    int64_t place = -1;
    int64_t evaluation_place = -1;
    int64_t gradient = -1;  // -1 if no layer before it has parameters.
    int64_t bytes = 0;      // For the largest micro-batch.
  };

  // The planned layers. Fields of layers outside of [begin, end) are not set.
  int begin = 0;
  int end = 0;
  std::vector<Node> nodes;
  // The ends of the groups of layers that are computed again together, in
  // ascending order; a single group if nothing is computed again.
  std::vector<int> groups;
  // The values that layers before `begin` compute, and the values that layers
  // behind `end` read, in ascending order. A value that passes through the part
  // is in both lists, with the same places.
  std::vector<Crossing> received;
  std::vector<Crossing> sent;
  // `input` is the offset, in the network's block of memory, to which the input
  // is copied from the host, as elements of four bytes. `input_value` is the
  // offset from which layers read the input, in the device's number format. The
  // two are equal unless the input must be rounded. Both are -1 if no layer of
  // the part reads the input.
  int64_t input = -1;
  int64_t input_value = -1;
  // The gradient of the input, if it has vectors (see Graph); otherwise -1.
  int64_t input_gradient = -1;
  // The following places are set in the last part of a network.
  int64_t target = -1;
  int64_t loss_input = -1;
  int64_t evaluation_loss_input = -1;
  int64_t loss_gradient = -1;  // May equal loss_input.
  // Size of the block of memory. The bytes behind the first `kept_bytes` hold
  // nothing between the passes of a micro-batch: micro-batches in flight may
  // share them.
  int64_t bytes = 0;
  int64_t kept_bytes = 0;

  // Returns the size of the memory that micro-batches in flight may share.
  int64_t SharedBytes() const { return bytes - kept_bytes; }
  // Returns the size of the memory for this number of micro-batches in flight.
  int64_t BytesOf(int in_flight) const {
    return bytes + kept_bytes * (in_flight - 1);
  }
};

// Plans the memory of a part of a network, by default of the whole network. A
// tensor occupies memory from the layer call that writes it to the last one
// that reads it, in the order of PassTimeline. Where no other layer needs the
// overwritten value, layers work in place and the gradients of a residual
// connection share a buffer. Layers that can compute an adjacent GELU
// (LayerSpec::fuses_gelu) or the sum before them (LayerSpec::fuses_sum) do so.
//
// Returns InvalidArgument, with the layer's name, for a graph that cannot be
// trained or a part that AllowedCuts does not allow, and ResourceExhausted if
// the sizes exceed any possible memory.
absl::StatusOr<NetworkPlan> PlanNetwork(const Graph& graph, int64_t max_samples,
                                        const Device& device,
                                        const NetworkPart& part = {});

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_NETWORK_PLAN_H_
