#include "worker/training/measured_stages.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "common/base/monotonic_clock.h"
#include "common/base/status_macros.h"
#include "common/optimizer/optimizer.h"
#include "common/pipeline/pipeline_schedule.h"
#include "worker/models/stages/stage_cuts.h"
#include "worker/models/stages/stage_split.h"

namespace tributary {
namespace {

// Long enough to see a share of a core, of which CPU quotas are renewed every
// 100 ms, and workers that start together measure at the same time.
constexpr absl::Duration kMeasureTime = absl::Milliseconds(500);

// Returns the cuts before these layers as indices into `all`, which contains
// them.
std::vector<int> NumbersOf(const std::vector<int>& layers,
                           const std::vector<PipelineCut>& all) {
  std::vector<int> numbers;
  for (const int layer : layers) {
    const auto found = std::find_if(
        all.begin(), all.end(),
        [layer](const PipelineCut& cut) { return cut.layer == layer; });
    numbers.push_back(static_cast<int>(found - all.begin()));
  }
  return numbers;
}

int64_t ParameterBytes(const TrainingSetup& setup, const Graph::Node& node) {
  int64_t bytes = 0;
  for (const int parameter : node.parameters) {
    bytes += setup.layout().parameters()[parameter].size *
             static_cast<int64_t>(sizeof(float));
  }
  return bytes;
}

// Adds the memory for optimizers in the worker.
void AddOptimizers(const TrainingSetup& setup, const Graph& graph,
                   LayerCosts* costs) {
  const ExchangeTraits& traits = setup.traits();
  const auto optimizer = Optimizer::Create(setup.job().optimizer());
  const int64_t state = optimizer.ok() ? (*optimizer)->slots() : 0;
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    LayerCost& cost = costs->layers[i].cost;
    const int64_t bytes = ParameterBytes(setup, graph.nodes()[i]);
    // Each micro-batch has weights, which are updated from one arena to
    // another, a gradient, and an optimizer of its own.
    if (traits.local_sgd) cost.learner_bytes = (3 + state) * bytes;
    // Members that divide the state take a part of it, which depends on the
    // number of replicas.
    if (!traits.servers_update && !traits.workers_shard_optimizer) {
      cost.parameter_bytes += state * bytes;
    }
  }
}

int64_t SamplesOf(const JobSpec& job) {
  return job.batch().global() / job.batch().micro_batches();
}

void AddCost(const LayerCost& cost, double slowdown, StageSegment* to) {
  const PassSeconds& seconds = cost.seconds;
  to->set_forward_seconds(to->forward_seconds() + slowdown * seconds.forward);
  to->set_backward_input_seconds(to->backward_input_seconds() +
                                 slowdown * seconds.backward_input);
  to->set_backward_weights_seconds(to->backward_weights_seconds() +
                                   slowdown * seconds.backward_weights);
  to->set_activation_bytes(to->activation_bytes() + cost.activation_bytes);
  to->set_weight_pass_bytes(to->weight_pass_bytes() + cost.weight_pass_bytes);
  to->set_parameter_bytes(to->parameter_bytes() + cost.parameter_bytes);
  to->set_learner_bytes(to->learner_bytes() + cost.learner_bytes);
}

// Returns the layers that the job names or, if it names none, the layers with
// which stages may begin; of too many, every second, third, ...
absl::StatusOr<std::vector<int>> SegmentCuts(const PipelineSpec& spec,
                                             const Graph& graph) {
  TRIBUTARY_ASSIGN_OR_RETURN(std::vector<int> cuts, NamedCuts(spec, graph));
  if (!cuts.empty() || spec.stages() == 1) return cuts;
  const std::vector<bool> allowed = CutsBetweenParameters(graph);
  for (size_t i = 0; i < allowed.size(); ++i) {
    if (allowed[i]) cuts.push_back(static_cast<int>(i));
  }
  const size_t distance = cuts.size() / kMostSegments + 1;
  std::vector<int> some;
  for (size_t i = distance - 1; i < cuts.size(); i += distance) {
    some.push_back(cuts[i]);
  }
  return some;
}

StageParameters ParametersOf(const StageSplit::Stage& stage) {
  StageParameters parameters;
  parameters.set_layer_begin(stage.begin);
  parameters.set_layer_end(stage.end);
  parameters.set_chunk_begin(static_cast<int32_t>(stage.chunks.begin));
  parameters.set_chunk_end(static_cast<int32_t>(stage.chunks.end));
  for (const StageSplit::Range& range : stage.read_chunks) {
    ChunkRange* const chunks = parameters.add_read_chunk();
    chunks->set_begin(static_cast<int32_t>(range.begin));
    chunks->set_end(static_cast<int32_t>(range.end));
  }
  return parameters;
}

}  // namespace

absl::StatusOr<MeasuredStages> MeasureStages(const TrainingSetup& setup,
                                             const Graph& graph) {
  const JobSpec& job = setup.job();
  const PipelineSpec& spec = job.parallel().pipeline();
  TRIBUTARY_RETURN_IF_ERROR(CheckStages(spec, graph));
  TRIBUTARY_ASSIGN_OR_RETURN(std::vector<int> layers, NamedCuts(spec, graph));
  TRIBUTARY_ASSIGN_OR_RETURN(
      LayerCosts costs,
      MeasureLayers([&] { return setup.BuildGraph(); }, SamplesOf(job),
                    setup.device(/*thread=*/0), absl::ZeroDuration(),
                    &MonotonicNow));
  AddOptimizers(setup, graph, &costs);
  MeasuredStages measured;
  measured.input.schedule = ScheduleOf(spec);
  measured.input.micro_batches = static_cast<int>(job.batch().micro_batches());
  measured.input.layers = std::move(costs.layers);
  measured.input.cuts = std::move(costs.cuts);
  measured.input.devices.resize(spec.stages());
  if (spec.split().empty()) {
    const std::vector<bool> allowed = CutsBetweenParameters(graph);
    std::vector<PipelineCut>& cuts = measured.input.cuts;
    cuts.erase(std::remove_if(
                   cuts.begin(), cuts.end(),
                   [&](const PipelineCut& cut) { return !allowed[cut.layer]; }),
               cuts.end());
    TRIBUTARY_ASSIGN_OR_RETURN(measured.balance, BalanceStages(measured.input));
    for (int s = 1; s < spec.stages(); ++s) {
      layers.push_back(measured.balance.stages[s].begin_layer);
    }
    measured.cuts = NumbersOf(layers, measured.input.cuts);
    return measured;
  }
  measured.cuts = NumbersOf(layers, measured.input.cuts);
  TRIBUTARY_ASSIGN_OR_RETURN(measured.balance,
                             EvaluateSplit(measured.input, measured.cuts));
  return measured;
}

absl::StatusOr<std::vector<StageSegment>> DescribeSegments(
    const TrainingSetup& setup, const Graph& graph, const RunClock& clock) {
  const PipelineSpec& spec = setup.job().parallel().pipeline();
  TRIBUTARY_RETURN_IF_ERROR(CheckStages(spec, graph));
  TRIBUTARY_ASSIGN_OR_RETURN(const std::vector<int> cuts,
                             SegmentCuts(spec, graph));
  TRIBUTARY_ASSIGN_OR_RETURN(const StageSplit split,
                             SplitIntoStages(graph, setup.layout(), cuts));
  Device* const device = setup.device(/*thread=*/0);
  const int64_t samples = SamplesOf(setup.job());
  const bool chooses = spec.stages() > 1 && spec.split().empty();
  TRIBUTARY_ASSIGN_OR_RETURN(
      LayerCosts costs,
      clock != nullptr && chooses
          ? MeasureLayers([&] { return setup.BuildGraph(); }, samples, device,
                          kMeasureTime, clock)
          : CountLayers(graph, samples, *device));
  AddOptimizers(setup, graph, &costs);
  std::vector<StageSegment> segments;
  for (const StageSplit::Stage& stage : split.stages) {
    StageSegment segment;
    *segment.mutable_parameters() = ParametersOf(stage);
    segment.set_first_layer(graph.nodes()[stage.begin].name);
    segment.set_last_layer(graph.nodes()[stage.end - 1].name);
    for (int layer = stage.begin; layer < stage.end; ++layer) {
      AddCost(costs.layers[layer].cost, costs.slowdown, &segment);
    }
    for (const PipelineCut& cut : costs.cuts) {
      if (cut.layer == stage.begin) segment.set_input_bytes(cut.bytes);
    }
    segments.push_back(std::move(segment));
  }
  return segments;
}

}  // namespace tributary
