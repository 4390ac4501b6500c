#include "worker/process/stage_proposal.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/pipeline/stage_balance.h"
#include "worker/models/stages/layer_costs.h"
#include "worker/nn/graph.h"
#include "worker/nn/network_cuts.h"

namespace tributary {
namespace {

// Returns the layers that the job names, as the first ones of the stages but
// the first. Returns InvalidArgument, naming the layer and some that exist.
absl::StatusOr<std::vector<int>> NamedCuts(const PipelineSpec& spec,
                                           const Graph& graph) {
  std::vector<int> cuts;
  for (const std::string& name : spec.split()) {
    const auto found = std::find_if(
        graph.nodes().begin(), graph.nodes().end(),
        [&](const Graph::Node& node) { return node.name == name; });
    if (found == graph.nodes().end()) {
      const std::vector<bool> allowed = AllowedCuts(graph);
      std::vector<std::string> names;
      for (size_t i = 1; i < allowed.size(); ++i) {
        if (allowed[i]) names.push_back(graph.nodes()[i].name);
      }
      return absl::InvalidArgumentError(absl::StrCat(
          "parallel.pipeline.split: the model has no layer ", name,
          "; a stage may begin with ", absl::StrJoin(names, ", ")));
    }
    cuts.push_back(static_cast<int>(found - graph.nodes().begin()));
  }
  return cuts;
}

// Measures the layers, and returns the cuts of the division with which a step
// takes the least time.
absl::StatusOr<std::vector<int>> BalancedCuts(const TrainingSetup& setup,
                                              PipelineSchedule schedule,
                                              Logger* log) {
  const JobSpec& job = setup.job();
  const int stages = job.parallel().pipeline().stages();
  const int64_t samples = job.batch().global() / job.batch().micro_batches();
  TRIBUTARY_ASSIGN_OR_RETURN(
      LayerCosts costs, MeasureLayers([&] { return setup.BuildGraph(); },
                                      samples, setup.device(/*thread=*/0)));
  BalanceInput input;
  input.schedule = schedule;
  input.micro_batches = static_cast<int>(job.batch().micro_batches());
  input.layers = std::move(costs.layers);
  input.cuts = std::move(costs.cuts);
  input.devices.resize(stages);
  TRIBUTARY_ASSIGN_OR_RETURN(const StageBalance balance, BalanceStages(input));
  std::vector<int> cuts;
  for (size_t s = 0; s < balance.stages.size(); ++s) {
    const BalancedStage& stage = balance.stages[s];
    if (s > 0) cuts.push_back(stage.begin_layer);
    log->Info(
        "proposes stage %d: layers %s to %s, %.3f ms for a micro-batch "
        "(forward %.3f, backward %.3f + %.3f), %d bytes of memory, %d bytes to "
        "the next stage",
        s, input.layers[stage.begin_layer].name,
        input.layers[stage.end_layer - 1].name, 1e3 * stage.seconds.total(),
        1e3 * stage.seconds.forward, 1e3 * stage.seconds.backward_input,
        1e3 * stage.seconds.backward_weights, stage.memory_bytes,
        stage.boundary_bytes);
  }
  log->Info("predicts a bubble of %.1f %%", 100 * balance.bubble);
  return cuts;
}

}  // namespace

absl::StatusOr<std::vector<int>> ProposeCuts(const TrainingSetup& setup,
                                             PipelineSchedule schedule,
                                             Logger* log) {
  const PipelineSpec& spec = setup.job().parallel().pipeline();
  if (spec.stages() == 1) return std::vector<int>();
  TRIBUTARY_ASSIGN_OR_RETURN(const Graph graph, setup.BuildGraph());
  if (spec.split_size() > 0) return NamedCuts(spec, graph);
  const std::vector<bool> allowed = AllowedCuts(graph);
  const auto possible = 1 + std::count(allowed.begin(), allowed.end(), true);
  if (spec.stages() > possible) {
    return absl::InvalidArgumentError(
        absl::StrCat("parallel.pipeline.stages is ", spec.stages(),
                     ", but the model can be ", "divided into at most ",
                     possible, " stages; reduce it"));
  }
  return BalancedCuts(setup, schedule, log);
}

}  // namespace tributary
