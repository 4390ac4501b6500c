// Who reads the values of a network, and which gradients it computes.
#ifndef TRIBUTARY_WORKER_NN_NETWORK_USES_H_
#define TRIBUTARY_WORKER_NN_NETWORK_USES_H_

#include <vector>

#include "worker/nn/graph.h"

namespace tributary {

// What follows from a graph alone. Immutable.
class NetworkUses {
 public:
  // With `separate_weights`, finds the layers whose weights have a pass of
  // their own (see NetworkPart).
  NetworkUses(const Graph& graph, bool separate_weights);

  // Returns the layers that read the value, ascending.
  const std::vector<int>& consumers(ValueId value) const {
    return consumers_[value];
  }
  // True if the value depends on a parameter or on vectors (see Graph).
  bool needs_gradient(ValueId value) const { return needs_gradient_[value]; }
  // True if Backward of the layer must be called.
  bool has_backward(int layer) const;
  // True if the gradients of the layer's weights are computed in a pass of
  // their own.
  bool separates(int layer) const { return separates_[layer]; }

 private:
  // A layer without gradients of inputs has nothing to do in the backward pass.
  // The users of a shared parameter add to its gradient in descending order, so
  // they compute it in the same pass.
  void FindSeparateWeights();

  const Graph& graph_;
  std::vector<std::vector<int>> consumers_;
  std::vector<bool> needs_gradient_;
  std::vector<bool> separates_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_NETWORK_USES_H_
