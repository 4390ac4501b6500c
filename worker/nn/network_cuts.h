// The places at which a network can be cut into parts.
#ifndef TRIBUTARY_WORKER_NN_NETWORK_CUTS_H_
#define TRIBUTARY_WORKER_NN_NETWORK_CUTS_H_

#include <vector>

#include "worker/nn/graph.h"

namespace tributary {

// A cut before layer number c divides a network into the layers before c and
// the layers from c on. The functions of this file require a graph whose
// status() is OK.

// Returns the values, except for the network's input, that layers before layer
// number `cut` compute and other layers or the loss read, in ascending order.
std::vector<ValueId> CrossingValues(const Graph& graph, int cut);

// Returns, for each layer, whether the network may be cut before it. It may
// not be cut between layers that can compute GELU or its gradient together
// (LayerSpec::fuses_gelu): the results of the two parts would be rounded in
// between. Element 0 is false.
std::vector<bool> AllowedCuts(const Graph& graph);

// Returns the ends of the blocks of layers [begin, end), in ascending order;
// the last one is `end`. Blocks end at allowed cuts at which a single value
// crosses, such as after a residual connection.
std::vector<int> BlockEnds(const Graph& graph, int begin, int end);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_NETWORK_CUTS_H_
