// Measurement of the layers of a network, for dividing them into stages.
#ifndef TRIBUTARY_WORKER_MODELS_STAGES_LAYER_COSTS_H_
#define TRIBUTARY_WORKER_MODELS_STAGES_LAYER_COSTS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/pipeline/stage_balance.h"
#include "worker/device/device.h"
#include "worker/nn/graph.h"

namespace tributary {

// The layers of a network as BalanceStages takes them, and the places at which
// it may be cut.
struct LayerCosts {
  std::vector<PipelineLayer> layers;
  std::vector<PipelineCut> cuts;
  // How many times as long as the sum of the layers' times a micro-batch takes:
  // see TypicalSlowdown.
  double slowdown = 1;
};

// One forward and backward pass of a block of layers.
struct TimedRun {
  absl::Duration duration;
  // What the layers take in their shortest runs.
  absl::Duration shortest;
};

// Returns how many times as long as `shortest` the runs took: more if the
// thread has to share its core, or has used up its quota of CPU time. Divides
// the runs, which are in the order of time, into stretches of 100 ms, after
// which such a quota is renewed, and returns the median of the stretches, so
// that an interruption of some of them does not count. Returns 1 if there are
// no runs.
double TypicalSlowdown(absl::Span<const TimedRun> runs);

// Returns the present time; not thread-safe.
using RunClock = std::function<absl::Time()>;

// Builds the same graph in each call.
using GraphBuilder = std::function<absl::StatusOr<Graph>()>;

// Computes forward and backward of a micro-batch of `samples` samples on
// `device`, block by block (see BlockEnds), so that only one block's weights
// and activations need memory at a time. The values do not matter: weights are
// initial, samples are zero. Runs each block a few times, and more often while
// all blocks together take less than `at_least`. The times of the layers are
// those of the shortest runs, and `clock` measures whole runs. Returns the
// errors of Network::Create.
absl::StatusOr<LayerCosts> MeasureLayers(const GraphBuilder& build,
                                         int64_t samples, Device* device,
                                         absl::Duration at_least,
                                         const RunClock& clock);

// Returns what MeasureLayers returns, except that all times are 0.
absl::StatusOr<LayerCosts> CountLayers(const Graph& graph, int64_t samples,
                                       const Device& device);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_MODELS_STAGES_LAYER_COSTS_H_
