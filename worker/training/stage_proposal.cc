#include "worker/training/stage_proposal.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/optimizer/optimizer.h"
#include "worker/models/stages/layer_costs.h"
#include "worker/models/stages/stage_split.h"
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

std::string DescribeCosts(const StageBalance& balance, size_t number) {
  const BalancedStage& stage = balance.stages[number];
  return absl::StrCat(
      absl::StrFormat("; %.3f ms for a micro-batch (forward %.3f, backward "
                      "%.3f + %.3f), %.1f MB of memory, ",
                      1e3 * stage.seconds.total(), 1e3 * stage.seconds.forward,
                      1e3 * stage.seconds.backward_input,
                      1e3 * stage.seconds.backward_weights,
                      1e-6 * static_cast<double>(stage.memory_bytes)),
      number + 1 < balance.stages.size()
          ? absl::StrFormat("%.3f MB to the next stage",
                            1e-6 * static_cast<double>(stage.boundary_bytes))
          : absl::StrFormat("expected bubble %.1f %%", 100 * balance.bubble));
}

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

// Returns, for each layer, whether a stage may begin with it such that it and
// the stages around it have parameters, as a job requires.
std::vector<bool> CutsBetweenParameters(const Graph& graph) {
  std::vector<bool> cuts = AllowedCuts(graph);
  bool found = false;  // Parameters, between a layer and the next cut.
  for (size_t i = cuts.size(); i-- > 0;) {
    found = found || !graph.nodes()[i].parameters.empty();
    if (i == 0 || !cuts[i]) continue;
    cuts[i] = found;
    found = false;
  }
  if (found) return cuts;
  const auto first = std::find(cuts.begin(), cuts.end(), true);
  if (first != cuts.end()) *first = false;
  return cuts;
}

// Returns the memory that a micro-batch takes for weights, a gradient and an
// optimizer's state of its own.
int64_t LearnerBytes(const TrainingSetup& setup, const Graph::Node& node) {
  const auto optimizer = Optimizer::Create(setup.job().optimizer());
  // Weights are updated from one arena to another.
  const int64_t copies = 3 + (optimizer.ok() ? (*optimizer)->slots() : 0);
  int64_t bytes = 0;
  for (const int parameter : node.parameters) {
    bytes += setup.layout().parameters()[parameter].size *
             static_cast<int64_t>(sizeof(float));
  }
  return copies * bytes;
}

absl::Status CheckStageCount(const PipelineSpec& spec, const Graph& graph) {
  const std::vector<bool> cuts = CutsBetweenParameters(graph);
  const auto possible = 1 + std::count(cuts.begin(), cuts.end(), true);
  if (spec.stages() <= possible) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("parallel.pipeline.stages is ", spec.stages(),
                   ", but the model can be divided into at most ", possible,
                   " stages with parameters; reduce it"));
}

}  // namespace

PipelineSchedule ScheduleOf(const PipelineSpec& spec) {
  const std::string& name = PipelineSpec::Schedule_Name(spec.schedule());
  for (const ScheduleTraits& traits : AllSchedules()) {
    if (traits.name == name) return traits.schedule;
  }
  return PipelineSchedule::kZeroBubble;  // Validation refuses other values.
}

absl::StatusOr<MeasuredStages> MeasureStages(const TrainingSetup& setup,
                                             const Graph& graph) {
  const JobSpec& job = setup.job();
  const PipelineSpec& spec = job.parallel().pipeline();
  TRIBUTARY_RETURN_IF_ERROR(CheckStageCount(spec, graph));
  TRIBUTARY_ASSIGN_OR_RETURN(std::vector<int> layers, NamedCuts(spec, graph));
  TRIBUTARY_RETURN_IF_ERROR(
      SplitIntoStages(graph, setup.layout(), layers).status());
  const int64_t samples = job.batch().global() / job.batch().micro_batches();
  TRIBUTARY_ASSIGN_OR_RETURN(
      LayerCosts costs, MeasureLayers([&] { return setup.BuildGraph(); },
                                      samples, setup.device(/*thread=*/0)));
  MeasuredStages measured;
  measured.input.schedule = ScheduleOf(spec);
  measured.input.micro_batches = static_cast<int>(job.batch().micro_batches());
  measured.input.layers = std::move(costs.layers);
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    if (!setup.traits().local_sgd) break;
    measured.input.layers[i].cost.learner_bytes =
        LearnerBytes(setup, graph.nodes()[i]);
  }
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

absl::StatusOr<StageProposal> ProposeStages(const TrainingSetup& setup,
                                            const Graph& graph) {
  const PipelineSpec& spec = setup.job().parallel().pipeline();
  TRIBUTARY_RETURN_IF_ERROR(CheckStageCount(spec, graph));
  StageProposal proposal;
  if (spec.stages() > 1 && spec.split().empty()) {
    TRIBUTARY_ASSIGN_OR_RETURN(const MeasuredStages measured,
                               MeasureStages(setup, graph));
    for (size_t s = 0; s < measured.balance.stages.size(); ++s) {
      const BalancedStage& stage = measured.balance.stages[s];
      if (s > 0) proposal.cuts.push_back(stage.begin_layer);
      proposal.descriptions.push_back(
          absl::StrCat(Describe(static_cast<int>(s), graph, stage.begin_layer,
                                stage.end_layer),
                       DescribeCosts(measured.balance, s)));
    }
    return proposal;
  }
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
