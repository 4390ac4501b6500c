// Divides the layers of a model into the stages of a pipeline.
#ifndef TRIBUTARY_COMMON_PIPELINE_STAGE_BALANCE_H_
#define TRIBUTARY_COMMON_PIPELINE_STAGE_BALANCE_H_

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/pipeline/pass_seconds.h"
#include "common/pipeline/pipeline_schedule.h"

namespace tributary {

// Models are divided at no more places than these segments have between them.
// More would hardly make stages more equal, and the time to balance them grows
// with the square.
inline constexpr int kMostSegments = 256;

// What one or more layers need.
struct LayerCost {
  PassSeconds seconds;  // For one micro-batch, on a device of speed 1.
  // Memory that one micro-batch takes: from the forward pass to the backward
  // pass, and then, if backward is split, until the weight pass.
  int64_t activation_bytes = 0;
  int64_t weight_pass_bytes = 0;
  // Memory that is always taken: all copies of the weights, and gradients.
  int64_t parameter_bytes = 0;
  // Memory that each micro-batch of a step always takes: in mode local_steps,
  // weights, a gradient and an optimizer's state of its own.
  int64_t learner_bytes = 0;
};

struct PipelineLayer {
  std::string name;  // For messages.
  LayerCost cost;
};

// A place at which the model may be cut: before the layer `layer`, at least 1.
struct PipelineCut {
  int layer = 1;
  // Size of the activations of one micro-batch that cross the cut. Their
  // gradients have the same size.
  int64_t bytes = 0;
};

struct PipelineDevice {
  double speed = 1;  // A device of speed 2 needs half the time for a layer.
  int64_t memory_bytes = std::numeric_limits<int64_t>::max();
};

// Full duplex: activations and gradients do not compete.
struct PipelineLink {
  double bytes_per_second = std::numeric_limits<double>::infinity();
  double latency_seconds = 0;
};

struct BalanceInput {
  PipelineSchedule schedule = PipelineSchedule::kOneForwardOneBackward;
  int micro_batches = 1;
  std::vector<PipelineLayer> layers;
  std::vector<PipelineCut> cuts;        // In ascending order of `layer`.
  std::vector<PipelineDevice> devices;  // One for each stage, in their order.
  // Between each stage and the next one. Empty: transfers take no time.
  std::vector<PipelineLink> links;
};

struct BalancedStage {
  int begin_layer = 0;
  int end_layer = 0;    // The first layer after the stage.
  PassSeconds seconds;  // For one micro-batch, on the stage's device.
  // Largest memory that the stage takes: parameters, micro-batches up to the
  // schedule's limits, and full queues of received messages.
  int64_t memory_bytes = 0;
  // Bytes of one micro-batch that cross the boundary to the next stage, in each
  // direction. 0 for the last stage.
  int64_t boundary_bytes = 0;
};

struct StageBalance {
  std::vector<BalancedStage> stages;
  double step_seconds = 0;  // Of SimulatePipeline.
  double bubble = 0;        // PipelineTimeline::bubble
};

// Returns the split of the layers into one stage for each device with which a
// step takes the least time. Finds, exactly, the split with the smallest
// bottleneck (the largest time for which a micro-batch occupies a stage or a
// link), and, for several limits of the bottleneck, the split through which one
// micro-batch passes in the shortest time. SimulatePipeline decides between
// these. Then moves cuts as long as that makes the simulated step shorter. The
// result is never slower than the split with the smallest bottleneck, but a
// better one may exist. Takes about a second for 1,000 layers and 16 stages.
//
// Returns InvalidArgument if there are too few cuts, and ResourceExhausted if
// no split fits into the devices' memory; the message names the stage that
// misses the most memory if this is as little as possible.
absl::StatusOr<StageBalance> BalanceStages(const BalanceInput& input);

// Returns the properties of the split at the given cuts, which are ascending
// indices into `input.cuts`, one fewer than devices. Returns ResourceExhausted,
// like BalanceStages, if a stage does not fit into its device's memory.
absl::StatusOr<StageBalance> EvaluateSplit(const BalanceInput& input,
                                           absl::Span<const int> cuts);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_PIPELINE_STAGE_BALANCE_H_
