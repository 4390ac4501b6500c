#include "worker/nn/network_uses.h"

#include <algorithm>
#include <cstddef>

#include "proto/parameter_server.pb.h"

namespace tributary {

NetworkUses::NetworkUses(const Graph& graph, bool separate_weights)
    : graph_(graph),
      consumers_(graph.values().size()),
      needs_gradient_(graph.values().size(), false),
      separates_(graph.nodes().size(), false) {
  needs_gradient_[graph.input()] = graph.vector_elements() > 0;
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const Graph::Node& node = graph.nodes()[i];
    bool needs = !node.parameters.empty();
    for (const ValueId input : node.inputs) {
      consumers_[input].push_back(static_cast<int>(i));
      needs = needs || needs_gradient_[input];
    }
    needs_gradient_[node.output] = needs;
  }
  if (separate_weights) FindSeparateWeights();
}

bool NetworkUses::has_backward(int layer) const {
  return needs_gradient_[graph_.nodes()[layer].output];
}

void NetworkUses::FindSeparateWeights() {
  std::vector<bool> together(graph_.table().parameter_size(), false);
  for (size_t i = 0; i < separates_.size(); ++i) {
    const Graph::Node& node = graph_.nodes()[i];
    separates_[i] =
        !node.parameters.empty() &&
        (node.spec.separates_weights ||
         std::none_of(node.inputs.begin(), node.inputs.end(),
                      [&](ValueId input) { return needs_gradient_[input]; }));
    for (const int parameter : node.parameters) {
      if (!separates_[i]) together[parameter] = true;
    }
  }
  for (size_t i = 0; i < separates_.size(); ++i) {
    for (const int parameter : graph_.nodes()[i].parameters) {
      if (together[parameter]) separates_[i] = false;
    }
  }
}

}  // namespace tributary
