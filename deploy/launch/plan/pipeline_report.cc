#include "deploy/launch/plan/pipeline_report.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/pipeline/pipeline_schedule.h"
#include "common/plan/bandwidth.h"
#include "common/text/counted.h"
#include "deploy/launch/plan/plan_units.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

std::string ScheduleName(const PipelinePlan& plan) {
  return std::string(TraitsOf(plan.shape.schedule).name);
}

std::string StageTable(const PipelineInputs& inputs, const PipelinePlan& plan) {
  const std::vector<PipelineLayer>& layers = inputs.stages.input.layers;
  std::vector<std::string> names;
  int width = 0;
  for (const BalancedStage& stage : plan.stages) {
    names.push_back(absl::StrCat(layers[stage.begin_layer].name, " to ",
                                 layers[stage.end_layer - 1].name));
    width = std::max(width, static_cast<int>(names.back().size()));
  }
  std::string text =
      absl::StrFormat("%-5s  %-*s %6s %6s %6s %8s %8s\n", "stage", width,
                      "layers", "F ms", "B ms", "W ms", "memory", "sends");
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const BalancedStage& stage = plan.stages[s];
    const bool last = s + 1 == plan.stages.size();
    absl::StrAppendFormat(
        &text, "%5d  %-*s %6s %6s %6s %8s %8s\n", s, width, names[s],
        PlanMilliseconds(stage.seconds.forward),
        PlanMilliseconds(stage.seconds.backward_input),
        PlanMilliseconds(stage.seconds.backward_weights),
        PlanBytes(static_cast<double>(stage.memory_bytes)),
        last ? "-" : PlanBytes(static_cast<double>(stage.boundary_bytes)));
  }
  return text;
}

std::string RowTable(const PipelinePlan& plan) {
  std::string text =
      absl::StrFormat("%-31s %8s %8s %8s %12s  %s\n", "", "link ms", "bubble",
                      "step ms", "no pipeline", "bottleneck");
  for (const PlannedPipeline& row : plan.rows) {
    absl::StrAppendFormat(&text, "%-31s %8s %6.1f %% %8s %12s  %s\n", row.name,
                          PlanMilliseconds(row.link_seconds), 100 * row.bubble,
                          PlanMilliseconds(row.step_seconds),
                          row.whole_step_seconds.has_value()
                              ? PlanMilliseconds(*row.whole_step_seconds)
                              : "-",
                          row.bottleneck);
  }
  return text;
}

nlohmann::ordered_json StagesJson(const PipelineInputs& inputs,
                                  const PipelinePlan& plan) {
  nlohmann::ordered_json stages = nlohmann::ordered_json::array();
  for (const BalancedStage& stage : plan.stages) {
    const std::vector<PipelineLayer>& layers = inputs.stages.input.layers;
    stages.push_back(
        {{"first_layer", layers[stage.begin_layer].name},
         {"last_layer", layers[stage.end_layer - 1].name},
         {"layers", stage.end_layer - stage.begin_layer},
         {"forward_ms", 1e3 * stage.seconds.forward},
         {"backward_input_ms", 1e3 * stage.seconds.backward_input},
         {"backward_weights_ms", 1e3 * stage.seconds.backward_weights},
         {"memory_bytes", stage.memory_bytes},
         {"boundary_bytes", stage.boundary_bytes}});
  }
  return stages;
}

}  // namespace

std::string FormatPipelinePlan(const PipelineInputs& inputs,
                               const PipelinePlan& plan) {
  const PlanInputs& exchange = inputs.exchange;
  return absl::StrFormat(
      "%s: %.4g M parameters in %s and %s; schedule %s\n"
      "%s with 1 thread%s, links of %s; %s of %s%s\n\n%s\n%s\n"
      "With equal passes and no time for transfers, the bubble is %.1f %%.\n"
      "%s\n",
      exchange.job.name(), 1e-6 * static_cast<double>(exchange.parameters),
      Counted(exchange.chunk_elements.size(), "chunk"),
      Counted(plan.stages.size(), "stage"), ScheduleName(plan),
      Counted(exchange.workers, "worker"), exchange.workers == 1 ? "" : " each",
      FormatBandwidth(exchange.bandwidth),
      Counted(plan.shape.replicas, "replica"),
      Counted(plan.shape.micro_batches, "micro-batch", "micro-batches"),
      plan.shape.spares > 0
          ? absl::StrCat(", ", Counted(plan.shape.spares, "spare"))
          : "",
      StageTable(inputs, plan), RowTable(plan),
      100 * plan.shape.FormulaBubble(), plan.advice);
}

nlohmann::ordered_json PipelinePlanJson(const PipelineInputs& inputs,
                                        const PipelinePlan& plan) {
  const PlanInputs& exchange = inputs.exchange;
  nlohmann::ordered_json json = {
      {"job", exchange.job.name()},
      {"parameters", exchange.parameters},
      {"chunks", exchange.chunk_elements.size()},
      {"workers", exchange.workers},
      {"servers", exchange.servers},
      {"threads", 1},
      {"bandwidth_bytes_per_second", exchange.bandwidth},
      {"payload_share", kPayloadShare},
      {"schedule", ScheduleName(plan)},
      {"replicas", plan.shape.replicas},
      {"spares", plan.shape.spares},
      {"micro_batches", plan.shape.micro_batches},
      {"stages", StagesJson(inputs, plan)},
      {"formula_bubble", plan.shape.FormulaBubble()},
      {"whole_model_bytes", inputs.whole_bytes},
      {"whole_model_fits", inputs.whole.has_value()},
  };
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const PlannedPipeline& row : plan.rows) {
    nlohmann::ordered_json shown = {{"key", row.key},
                                    {"name", row.name},
                                    {"link_ms", 1e3 * row.link_seconds},
                                    {"pass_ms", 1e3 * row.pass_seconds},
                                    {"pipeline_ms", 1e3 * row.pipeline_seconds},
                                    {"bubble", row.bubble},
                                    {"step_ms", 1e3 * row.step_seconds},
                                    {"bottleneck", row.bottleneck}};
    if (row.whole_step_seconds.has_value()) {
      shown["whole_model_step_ms"] = 1e3 * *row.whole_step_seconds;
    }
    rows.push_back(std::move(shown));
  }
  json["placements"] = std::move(rows);
  json["advice"] = plan.advice;
  return json;
}

}  // namespace tributary
