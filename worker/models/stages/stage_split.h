// Which parameters the stages of a pipeline read, and whose gradients they
// send.
#ifndef TRIBUTARY_WORKER_MODELS_STAGES_STAGE_SPLIT_H_
#define TRIBUTARY_WORKER_MODELS_STAGES_STAGE_SPLIT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/parameters/arena_layout.h"
#include "worker/nn/graph.h"

namespace tributary {

// The division of a network's layers and parameters into stages. The chunks of
// the arena do not depend on it: each chunk is contributed by the stage that
// uses the first of its elements first. Immutable.
struct StageSplit {
  // Elements [begin, end) of the arena, or chunks [begin, end).
  struct Range {
    int64_t begin = 0;
    int64_t end = 0;

    int64_t size() const { return end - begin; }
  };
  struct Stage {
    int begin = 0;  // The layers [begin, end).
    int end = 0;
    // The elements of the parameters that a layer of the stage uses first.
    Range elements;
    // The chunks whose gradients the stage contributes. May be empty.
    Range chunks;
    // The chunks with parameters that the stage reads, in ascending order.
    std::vector<Range> read_chunks;
  };
  // Gradients that stage `from` computes for each micro-batch and stage `to`,
  // an earlier one, completes. For the first elements of stage `from`, which
  // are in the last chunk of stage `to`, stage `to` copies them. For parameters
  // that layers of both stages use, it adds its own gradients to them, as a
  // network on one device does.
  struct Part {
    int from = 0;
    int to = 0;
    std::vector<Range> elements;

    int64_t bytes() const;
  };

  std::vector<Stage> stages;
  // At most one part for each pair of stages, ordered by `from`, then `to`.
  std::vector<Part> parts;
};

// Divides a network at `cuts`, the first layers of all stages but the first, in
// ascending order. `layout` is the layout of graph.table(). Returns
// InvalidArgument, naming the layer, if the network cannot be cut there.
absl::StatusOr<StageSplit> SplitIntoStages(const Graph& graph,
                                           const ArenaLayout& layout,
                                           const std::vector<int>& cuts);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_MODELS_STAGES_STAGE_SPLIT_H_
