// Decides, before a network runs, where each of its tensors lies and which may
// share memory.
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

// Places are bytes from the start of one block of memory; -1: there is no such
// tensor.
struct NetworkPlan {
  struct Node {
    std::array<int64_t, kMaxLayerInputs> inputs{-1, -1};
    int64_t output = -1;
    // The same outside training, where some layers are left out.
    std::array<int64_t, kMaxLayerInputs> evaluation_inputs{-1, -1};
    int64_t saved = -1;
    // Another layer makes the output (of GELU).
    bool forward_elsewhere = false;
    int64_t gelu_output = -1;  // Where this one makes another's.
    int64_t gelu_input = -1;   // LayerTensors::gelu_input.

    // Whether there is anything to do in backward, here and not elsewhere.
    bool backward = false;
    int64_t output_gradient = -1;
    std::array<int64_t, kMaxLayerInputs> input_gradients{-1, -1};
    std::array<bool, kMaxLayerInputs> accumulate{};
    // Where the layer writes a gradient that it cannot add itself.
    std::array<int64_t, kMaxLayerInputs> scratch{-1, -1};
    bool accumulate_weight = false;
    // When this layer's backward is done, the gradients of this parameter and
    // all behind it have become final; -1: of none that were not before.
    int ready_parameter = -1;
  };
  std::vector<Node> nodes;
  // Where the host's input is copied to, in elements of four bytes, and where
  // layers read it, in the device's precision: the same place, unless it must
  // be rounded.
  int64_t input = -1;
  int64_t input_value = -1;
  int64_t target = -1;
  int64_t loss_input = -1;
  int64_t evaluation_loss_input = -1;
  int64_t loss_gradient = -1;  // May equal loss_input.
  int64_t bytes = 0;
};

// A tensor lives from the pass that writes it to the last that reads it,
// counted in layers of forward and then of backward. Layers work in place, and
// residual connections hand gradients through, where nobody else reads what is
// lost. Layers that can do so make GELU before and behind them themselves.
// InvalidArgument for a graph that cannot be trained, with the layer's name;
// ResourceExhausted for one that no memory could hold.
absl::StatusOr<NetworkPlan> PlanNetwork(const Graph& graph, int64_t max_samples,
                                        const Device& device);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_NETWORK_PLAN_H_
