// Measurement of the layers of a network, for dividing them into stages.
#ifndef TRIBUTARY_WORKER_MODELS_STAGES_LAYER_COSTS_H_
#define TRIBUTARY_WORKER_MODELS_STAGES_LAYER_COSTS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "common/pipeline/stage_balance.h"
#include "worker/device/device.h"
#include "worker/nn/graph.h"

namespace tributary {

// The layers of a network as BalanceStages takes them, and the places at which
// it may be cut.
struct LayerCosts {
  std::vector<PipelineLayer> layers;
  std::vector<PipelineCut> cuts;
};

// Builds the same graph in each call.
using GraphBuilder = std::function<absl::StatusOr<Graph>()>;

// Computes forward and backward of a micro-batch of `samples` samples on
// `device`, block by block (see BlockEnds), so that only one block's weights
// and activations need memory at a time. The values do not matter: weights are
// initial, samples are zero. Takes the shortest of a few runs. Returns the
// errors of Network::Create.
absl::StatusOr<LayerCosts> MeasureLayers(const GraphBuilder& build,
                                         int64_t samples, Device* device);

// Returns what MeasureLayers returns, except that all times are 0.
absl::StatusOr<LayerCosts> CountLayers(const Graph& graph, int64_t samples,
                                       const Device& device);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_MODELS_STAGES_LAYER_COSTS_H_
