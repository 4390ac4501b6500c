#include "worker/process/stage_proposal.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/pipeline/stage_balance.h"
#include "worker/models/stages/layer_costs.h"
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

// Returns a line for stage `number`, which computes the layers [begin, end).
std::string Describe(int number, const Graph& graph, int begin, int end) {
  return absl::StrCat("stage ", number, ": layers ", graph.nodes()[begin].name,
                      " to ", graph.nodes()[end - 1].name);
}

// Measures the layers, and returns the division with which a step takes the
// least time.
absl::StatusOr<StageProposal> BalancedStages(const TrainingSetup& setup,
                                             const Graph& graph,
                                             PipelineSchedule schedule) {
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
  StageProposal proposal;
  for (int s = 0; s < stages; ++s) {
    const BalancedStage& stage = balance.stages[s];
    if (s > 0) proposal.cuts.push_back(stage.begin_layer);
    proposal.descriptions.push_back(absl::StrCat(
        Describe(s, graph, stage.begin_layer, stage.end_layer),
        absl::StrFormat("; %.3f ms for a micro-batch (forward %.3f, backward "
                        "%.3f + %.3f), %.1f MB of memory, ",
                        1e3 * stage.seconds.total(),
                        1e3 * stage.seconds.forward,
                        1e3 * stage.seconds.backward_input,
                        1e3 * stage.seconds.backward_weights,
                        1e-6 * static_cast<double>(stage.memory_bytes)),
        s + 1 < stages
            ? absl::StrFormat("%.3f MB to the next stage",
                              1e-6 * static_cast<double>(stage.boundary_bytes))
            : absl::StrFormat("expected bubble %.1f %%",
                              100 * balance.bubble)));
  }
  return proposal;
}

}  // namespace

absl::StatusOr<StageProposal> ProposeStages(const TrainingSetup& setup,
                                            const Graph& graph,
                                            PipelineSchedule schedule) {
  const PipelineSpec& spec = setup.job().parallel().pipeline();
  const std::vector<bool> allowed = AllowedCuts(graph);
  const auto possible = 1 + std::count(allowed.begin(), allowed.end(), true);
  if (spec.stages() > possible) {
    return absl::InvalidArgumentError(
        absl::StrCat("parallel.pipeline.stages is ", spec.stages(),
                     ", but the model can be divided into at most ", possible,
                     " stages; reduce it"));
  }
  if (spec.stages() > 1 && spec.split().empty()) {
    return BalancedStages(setup, graph, schedule);
  }
  StageProposal proposal;
  TRIBUTARY_ASSIGN_OR_RETURN(proposal.cuts, NamedCuts(spec, graph));
  int begin = 0;
  for (size_t s = 0; s <= proposal.cuts.size(); ++s) {
    const int end = s < proposal.cuts.size()
                        ? proposal.cuts[s]
                        : static_cast<int>(graph.nodes().size());
    // Names in another order than that of the layers are refused later.
    if (begin >= end) break;
    proposal.descriptions.push_back(
        Describe(static_cast<int>(s), graph, begin, end));
    begin = end;
  }
  return proposal;
}

}  // namespace tributary
