#include "worker/training/stage_proposal.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "common/optimizer/optimizer.h"
#include "worker/models/stages/layer_costs.h"
#include "worker/models/stages/stage_cuts.h"

namespace tributary {
namespace {

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
  TRIBUTARY_RETURN_IF_ERROR(CheckStages(spec, graph));
  TRIBUTARY_ASSIGN_OR_RETURN(std::vector<int> layers, NamedCuts(spec, graph));
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
  TRIBUTARY_RETURN_IF_ERROR(CheckStages(spec, graph));
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
    proposal.descriptions.push_back(
        Describe(static_cast<int>(s), graph, begin, end));
    begin = end;
  }
  return proposal;
}

}  // namespace tributary
