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

// Offsets are bytes from the start of one block of memory; -1 stands for an
// absent tensor.
struct NetworkPlan {
  struct Node {
    int64_t constants = -1;  // Written once, and never overwritten.
    std::array<int64_t, kMaxLayerInputs> inputs{-1, -1};
    int64_t output = -1;
    // Inputs outside training, where some layers are skipped.
    std::array<int64_t, kMaxLayerInputs> evaluation_inputs{-1, -1};
    int64_t saved = -1;
    // True if this layer is a GELU whose output another layer computes.
    bool forward_elsewhere = false;
    // Output of a GELU that this layer computes, or -1.
    int64_t gelu_output = -1;
    int64_t gelu_input = -1;  // LayerTensors::gelu_input.

    // True if the layer's own Backward must run.
    bool backward = false;
    int64_t output_gradient = -1;
    std::array<int64_t, kMaxLayerInputs> input_gradients{-1, -1};
    std::array<bool, kMaxLayerInputs> accumulate{};
    // Buffer for a gradient that the layer cannot accumulate itself.
    std::array<int64_t, kMaxLayerInputs> scratch{-1, -1};
    bool accumulate_weight = false;
    // Backward of this layer makes the gradients of this parameter and all
    // later ones final; -1 if it makes none final.
    int ready_parameter = -1;
  };
  std::vector<Node> nodes;
  // `input` is the destination of the host's input, in elements of four bytes.
  // `input_value` is where layers read it, in the device's precision. They are
  // equal unless the input must be rounded.
  int64_t input = -1;
  int64_t input_value = -1;
  int64_t target = -1;
  int64_t loss_input = -1;
  int64_t evaluation_loss_input = -1;
  int64_t loss_gradient = -1;  // May equal loss_input.
  int64_t bytes = 0;
};

// Plans the memory of a network. A tensor occupies memory from the layer call
// that writes it to the last one that reads it, in the order of forward and
// then of backward. Layers work in place, and residual connections share their
// gradients, where no other layer needs the overwritten value. Layers that
// support it compute an adjacent GELU themselves.
//
// Returns InvalidArgument, with the layer's name, for a graph that cannot be
// trained, and ResourceExhausted if the sizes exceed any possible memory.
absl::StatusOr<NetworkPlan> PlanNetwork(const Graph& graph, int64_t max_samples,
                                        const Device& device);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_NETWORK_PLAN_H_
