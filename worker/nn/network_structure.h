// A network's graph, and where its tensors and parameters are.
#ifndef TRIBUTARY_WORKER_NN_NETWORK_STRUCTURE_H_
#define TRIBUTARY_WORKER_NN_NETWORK_STRUCTURE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/parameters/arena_layout.h"
#include "worker/device/device.h"
#include "worker/nn/graph.h"
#include "worker/nn/network_plan.h"

namespace tributary {

// What is the same for all micro-batches of a network. Immutable.
struct NetworkStructure {
  // Number of dropout streams per micro-batch. A network with more layers would
  // share streams with the next micro-batch.
  static constexpr int kStreamsPerMicroBatch = 4096;

  // Elements [begin, end) of the weights, or of the gradients.
  struct Range {
    int64_t begin = 0;
    int64_t end = 0;
  };
  // A group of consecutive layers, [begin, end). On devices that capture
  // operations (see Capture), a segment has several megabytes of parameters, if
  // its layers are computed again together; on others it is one layer. The
  // network waits for all weights of a segment before it queues the first
  // operation of the segment.
  struct Segment {
    int begin = 0;
    int end = 0;
    // The ranges of the weights that forward of the segment reads, in ascending
    // order.
    std::vector<Range> weights;
    // Index of a parameter. After the last pass of this segment, the gradients
    // of this parameter and of all later parameters are final: no other layer
    // changes them. -1 if no gradients become final.
    int ready_parameter = -1;
    // The ranges of the gradients of frozen parameters (see Graph::Freeze) that
    // become final after this segment. They are set to zero.
    std::vector<Range> frozen;
  };

  // Plans a part of the network for micro-batches of up to `max_samples`
  // samples. Returns InvalidArgument for a graph that cannot be trained or has
  // more than 4,096 layers, and ResourceExhausted if the sizes exceed any
  // possible memory.
  static absl::StatusOr<NetworkStructure> Create(Graph graph,
                                                 int64_t max_samples,
                                                 const Device& device,
                                                 const NetworkPart& part = {});

  int layers() const { return static_cast<int>(graph.nodes().size()); }

  Graph graph;
  int64_t max_samples = 0;
  ArenaLayout layout;
  NetworkPlan plan;
  NetworkPart part;
  // The elements of the arena of the parameters that a layer of the part uses
  // first, from the first of these parameters to the first one of the next
  // part.
  Range elements;
  // The elements of parameters that layers of the part use, but that a layer of
  // an earlier part uses first. Their gradients are added to those of the next
  // earlier part that uses them.
  std::vector<Range> borrowed;
  std::vector<Range> gaps;        // Gaps between parameters, in `elements`.
  std::vector<Segment> segments;  // Of the part, in forward order.
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_NETWORK_STRUCTURE_H_
