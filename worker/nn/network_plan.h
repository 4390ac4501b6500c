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

namespace tributary {

// The place of each tensor of a network in one block of memory. Tensors are
// given as offsets from the start of the block, in bytes; -1 stands for a
// tensor that does not exist.
struct NetworkPlan {
  struct Node {
    int64_t constants = -1;  // Place of LayerSpec::constants, written once.
    // Offsets of the layer's inputs, in the network's block of memory, in
    // training.
    std::array<int64_t, kMaxLayerInputs> inputs{-1, -1};
    int64_t output = -1;
    // Offsets of the layer's inputs, in the network's block of memory, outside
    // of training. Layers that are the identity outside of training are then
    // skipped (LayerSpec::identity_in_evaluation).
    std::array<int64_t, kMaxLayerInputs> evaluation_inputs{-1, -1};
    int64_t saved = -1;
    // True if this layer is a GELU whose output the preceding layer computes,
    // or a sum that the following layer computes. Forward of this layer is then
    // not called.
    bool forward_elsewhere = false;
    // The number of the preceding layer, a sum, if this layer computes that sum
    // (LayerSpec::fuses_sum); otherwise -1.
    int sum = -1;
    // Offset of the output of the following layer, a GELU, if this layer
    // computes that GELU (LayerSpec::fuses_gelu); otherwise -1.
    int64_t gelu_output = -1;
    int64_t gelu_input = -1;  // Place of LayerTensors::gelu_input, or -1.

    // True if Backward of this layer must be called. False if neither this
    // layer nor a layer before it has parameters, or if this layer is a GELU
    // whose gradient the following layer computes.
    bool backward = false;
    int64_t output_gradient = -1;
    std::array<int64_t, kMaxLayerInputs> input_gradients{-1, -1};
    std::array<bool, kMaxLayerInputs> accumulate{};
    // Offsets of temporary buffers for the gradients of inputs; -1 for an input
    // that needs none. An input needs one if a later layer has already written
    // its part of the input's gradient, and this layer cannot add to that part
    // (see LayerSpec::accumulates).
    std::array<int64_t, kMaxLayerInputs> scratch{-1, -1};
    bool accumulate_weight = false;
    // Index of a parameter. After backward of this layer, the gradients of this
    // parameter and of all later parameters are final: no other layer changes
    // them. -1 if no gradients become final.
    int ready_parameter = -1;
  };
  std::vector<Node> nodes;
  // `input` is the offset, in the network's block of memory, to which the input
  // is copied from the host, as elements of four bytes. `input_value` is the
  // offset from which layers read the input, in the device's number format. The
  // two are equal unless the input must be rounded.
  int64_t input = -1;
  int64_t input_value = -1;
  int64_t target = -1;
  int64_t loss_input = -1;
  int64_t evaluation_loss_input = -1;
  int64_t loss_gradient = -1;  // May equal loss_input.
  int64_t bytes = 0;           // Size of the block of memory.
};

// Plans the memory of a network. A tensor occupies memory from the layer call
// that writes it to the last one that reads it, in the order of forward and
// then of backward. Where no other layer needs the overwritten value, layers
// work in place and the gradients of a residual connection share a buffer.
// Layers that can compute an adjacent GELU (LayerSpec::fuses_gelu) or the sum
// before them (LayerSpec::fuses_sum) do so.
//
// Returns InvalidArgument, with the layer's name, for a graph that cannot be
// trained, and ResourceExhausted if the sizes exceed any possible memory.
absl::StatusOr<NetworkPlan> PlanNetwork(const Graph& graph, int64_t max_samples,
                                        const Device& device);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_NETWORK_PLAN_H_
