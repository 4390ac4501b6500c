#include "worker/nn/network_cuts.h"

#include <algorithm>
#include <cstddef>

namespace tributary {
namespace {

// Returns the last layer that reads each value; the number of layers stands for
// the loss.
std::vector<int> LastReaders(const Graph& graph) {
  std::vector<int> readers(graph.values().size(), 0);
  const int count = static_cast<int>(graph.nodes().size());
  for (int i = 0; i < count; ++i) {
    for (const ValueId input : graph.nodes()[i].inputs) readers[input] = i;
  }
  if (graph.loss_input() >= 0) readers[graph.loss_input()] = count;
  return readers;
}

}  // namespace

std::vector<ValueId> CrossingValues(const Graph& graph, int cut) {
  const std::vector<int> readers = LastReaders(graph);
  std::vector<ValueId> values;
  // Value v is the output of layer v - 1.
  for (ValueId value = 1; value <= cut; ++value) {
    if (cut < static_cast<int>(graph.nodes().size()) && readers[value] >= cut) {
      values.push_back(value);
    }
  }
  return values;
}

std::vector<bool> AllowedCuts(const Graph& graph) {
  const std::vector<Graph::Node>& nodes = graph.nodes();
  std::vector<bool> allowed(nodes.size(), true);
  if (!allowed.empty()) allowed[0] = false;
  const auto forbid = [&](int from, int to) {
    for (int cut = from + 1; cut <= to; ++cut) allowed[cut] = false;
  };
  for (int i = 0; i < static_cast<int>(nodes.size()); ++i) {
    for (const ValueId input : nodes[i].inputs) {
      const int producer = input - 1;
      if (producer < 0) continue;
      const bool makes_gelu =
          nodes[i].spec.is_gelu && nodes[producer].spec.fuses_gelu;
      const bool makes_gradient =
          nodes[producer].spec.is_gelu && nodes[i].spec.fuses_gelu;
      if (makes_gelu || makes_gradient) forbid(producer, i);
    }
  }
  return allowed;
}

std::vector<int> BlockEnds(const Graph& graph, int begin, int end) {
  const std::vector<bool> allowed = AllowedCuts(graph);
  const std::vector<int> readers = LastReaders(graph);
  // The number of values that cross each cut.
  std::vector<int> crossing(graph.nodes().size() + 1, 0);
  for (ValueId value = 1; value < static_cast<ValueId>(readers.size());
       ++value) {
    for (int cut = value; cut <= readers[value]; ++cut) ++crossing[cut];
  }
  std::vector<int> ends;
  for (int cut = begin + 1; cut < end; ++cut) {
    if (allowed[cut] && crossing[cut] == 1) ends.push_back(cut);
  }
  ends.push_back(end);
  return ends;
}

}  // namespace tributary
