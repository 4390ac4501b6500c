#include "worker/models/stages/layer_costs.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

#include "absl/time/time.h"
#include "common/base/monotonic_clock.h"
#include "common/base/status_macros.h"
#include "common/os/shared_memory.h"
#include "worker/nn/gradient_sink.h"
#include "worker/nn/initial_values.h"
#include "worker/nn/network.h"
#include "worker/nn/network_cuts.h"
#include "worker/nn/network_pass.h"
#include "worker/nn/step_observer.h"

namespace tributary {
namespace {

// The first run warms up caches and libraries.
constexpr int kRuns = 4;
// More runs tell nothing new, whatever the clock says.
constexpr int kMostRuns = 10000;

// Sums up the seconds that each layer takes in one pass.
class LayerTimer final : public StepObserver {
 public:
  explicit LayerTimer(size_t layers) : seconds_(layers) {}

  void Reset() { std::fill(seconds_.begin(), seconds_.end(), 0.0); }
  bool observes_layers() const override { return true; }
  void OnLayer(int layer, absl::Time begin, absl::Time end) override {
    seconds_[layer] += absl::ToDoubleSeconds(end - begin);
  }
  double seconds(int layer) const { return seconds_[layer]; }

 private:
  std::vector<double> seconds_;
};

// The period of the CPU quotas of control groups.
constexpr absl::Duration kStretch = absl::Milliseconds(100);

int64_t ParameterBytes(const Graph& graph, const ArenaLayout& layout,
                       int layer) {
  // Two versions of the weights, and a gradient.
  constexpr int64_t kCopies = 3;
  int64_t bytes = 0;
  for (const int parameter : graph.nodes()[layer].parameters) {
    bytes += layout.parameters()[parameter].size * int64_t{sizeof(float)};
  }
  return kCopies * bytes;
}

// Measures the layers of one block for `at_least`. Keeps the shortest times in
// `layers`, and adds all runs but the first one to `runs`.
absl::Status MeasureBlock(const GraphBuilder& build, int64_t samples,
                          Device* device, int begin, int end,
                          absl::Duration at_least, const RunClock& clock,
                          std::vector<PipelineLayer>* layers,
                          std::vector<TimedRun>* runs) {
  NetworkPart part;
  part.begin = begin;
  part.end = end;
  part.separate_weights = true;
  TRIBUTARY_ASSIGN_OR_RETURN(Graph graph, build());
  TRIBUTARY_ASSIGN_OR_RETURN(const std::unique_ptr<Network> network,
                             Network::Create(std::move(graph), samples, device,
                                             /*copies=*/nullptr, part));
  const NetworkStructure& structure = network->structure();
  const ArenaLayout& layout = structure.layout;
  // Only pages that are used take memory.
  const int64_t bytes = layout.arena_elements() * int64_t{sizeof(float)};
  const PrivatePages weights(bytes);
  const PrivatePages gradients(bytes);
  auto* const values = reinterpret_cast<float*>(weights.data());
  for (const NetworkStructure::Segment& segment : structure.segments) {
    for (const NetworkStructure::Range& range : segment.weights) {
      WriteInitialValues(structure.graph, /*seed=*/1, layout, range.begin,
                         range.end, values);
    }
  }
  const std::vector<float> input(
      static_cast<size_t>(samples * structure.graph.values()[0]));
  const std::vector<float> target(
      static_cast<size_t>(samples * structure.graph.loss().TargetElements()));
  GradientSink sink(reinterpret_cast<float*>(gradients.data()));
  const WeightsView view(values);
  LayerTimer timer(structure.graph.nodes().size());
  NetworkPass& pass = *network->pass(0);
  const auto keep = [&](double PassSeconds::*seconds) {
    for (int i = begin; i < end; ++i) {
      double& shortest = (*layers)[i].cost.seconds.*seconds;
      shortest = shortest == 0 ? timer.seconds(i)
                               : std::min(shortest, timer.seconds(i));
    }
    timer.Reset();
  };
  const absl::Time began = MonotonicNow();
  const size_t first_run = runs->size();
  for (int run = 0;
       run < kRuns || (run < kMostRuns && MonotonicNow() - began < at_least);
       ++run) {
    const absl::Time run_began = clock();
    pass.Begin({samples, input.data(), target.data()},
               {/*seed=*/1, /*step=*/run, /*number=*/0, &view, &sink, &timer,
                /*sample_count=*/samples});
    pass.Forward(begin, end);
    keep(&PassSeconds::forward);
    if (structure.plan.target >= 0) {
      pass.BeginLoss();
      TRIBUTARY_RETURN_IF_ERROR(pass.AwaitLoss().status());
    }
    pass.Backward(begin, end);
    keep(&PassSeconds::backward_input);
    pass.Weights();
    keep(&PassSeconds::backward_weights);
    pass.End();
    if (run == 0) continue;
    runs->push_back({clock() - run_began, absl::ZeroDuration()});
  }
  double shortest = 0;
  for (int i = begin; i < end; ++i) {
    shortest += (*layers)[i].cost.seconds.total();
  }
  for (size_t i = first_run; i < runs->size(); ++i) {
    (*runs)[i].shortest = absl::Seconds(shortest);
  }
  device->SetRandomBase({});
  return device->Synchronize();
}

}  // namespace

double TypicalSlowdown(absl::Span<const TimedRun> runs) {
  std::vector<double> stretches;
  absl::Duration duration;
  absl::Duration shortest;
  for (size_t i = 0; i < runs.size(); ++i) {
    duration += runs[i].duration;
    shortest += runs[i].shortest;
    const bool rest = i + 1 == runs.size() && stretches.empty();
    if (shortest <= absl::ZeroDuration() || (duration < kStretch && !rest)) {
      continue;
    }
    stretches.push_back(absl::FDivDuration(duration, shortest));
    duration = shortest = absl::ZeroDuration();
  }
  if (stretches.empty()) return 1;
  const size_t median = (stretches.size() - 1) / 2;
  std::nth_element(stretches.begin(),
                   stretches.begin() + static_cast<std::ptrdiff_t>(median),
                   stretches.end());
  return stretches[median];
}

absl::StatusOr<LayerCosts> CountLayers(const Graph& graph, int64_t samples,
                                       const Device& device) {
  TRIBUTARY_ASSIGN_OR_RETURN(const NetworkPlan plan,
                             PlanNetwork(graph, samples, device));
  ParameterTable table = graph.table();
  // Offsets do not depend on this value.
  table.set_chunk_elements(int64_t{1} << 20);
  TRIBUTARY_ASSIGN_OR_RETURN(const ArenaLayout layout,
                             ArenaLayout::Create(table));
  LayerCosts costs;
  const std::vector<bool> allowed = AllowedCuts(graph);
  for (int i = 0; i < static_cast<int>(graph.nodes().size()); ++i) {
    const Graph::Node& node = graph.nodes()[i];
    PipelineLayer layer;
    layer.name = node.name;
    // Outputs that share the memory of an input are counted once.
    const NetworkPlan::Node& planned = plan.nodes[i];
    const auto& inputs = planned.forward.inputs;
    const bool in_place = std::find(inputs.begin(), inputs.end(),
                                    planned.forward.output) != inputs.end();
    layer.cost.activation_bytes =
        (in_place ? 0 : node.spec.output * samples * device.real_bytes()) +
        node.layer->SavedElements(device, samples) * int64_t{sizeof(float)};
    if (node.spec.separates_weights) {
      layer.cost.weight_pass_bytes =
          node.spec.output * samples * device.real_bytes();
    }
    layer.cost.parameter_bytes = ParameterBytes(graph, layout, i);
    costs.layers.push_back(std::move(layer));
    if (i == 0 || !allowed[i]) continue;
    PipelineCut cut;
    cut.layer = i;
    for (const ValueId value : CrossingValues(graph, i)) {
      cut.bytes += graph.values()[value] * samples * device.real_bytes();
    }
    costs.cuts.push_back(cut);
  }
  return costs;
}

absl::StatusOr<LayerCosts> MeasureLayers(const GraphBuilder& build,
                                         int64_t samples, Device* device,
                                         absl::Duration at_least,
                                         const RunClock& clock) {
  TRIBUTARY_ASSIGN_OR_RETURN(const Graph graph, build());
  TRIBUTARY_RETURN_IF_ERROR(graph.status());
  TRIBUTARY_ASSIGN_OR_RETURN(LayerCosts costs,
                             CountLayers(graph, samples, *device));
  const std::vector<int> ends =
      BlockEnds(graph, 0, static_cast<int>(graph.nodes().size()));
  const absl::Duration of_block = at_least / static_cast<double>(ends.size());
  std::vector<TimedRun> runs;
  int begin = 0;
  for (const int end : ends) {
    TRIBUTARY_RETURN_IF_ERROR(MeasureBlock(build, samples, device, begin, end,
                                           of_block, clock, &costs.layers,
                                           &runs));
    begin = end;
  }
  costs.slowdown = TypicalSlowdown(runs);
  return costs;
}

}  // namespace tributary
