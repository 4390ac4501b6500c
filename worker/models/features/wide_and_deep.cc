#include "worker/models/features/wide_and_deep.h"

#include "common/base/field_checks.h"
#include "common/base/status_macros.h"
#include "worker/models/blocks/spec_checks.h"

namespace tributary {

absl::StatusOr<Graph> BuildWideAndDeep(const ModelSpec& spec,
                                       const DataInfo& info) {
  const WideAndDeepSpec& model = spec.wide_and_deep();
  TRIBUTARY_ASSIGN_OR_RETURN(const FeatureInput input,
                             FeatureInput::Create(spec, info));
  if (input.numbers() == 0 && input.Rests().empty()) {
    return Error("model.wide_and_deep",
                 "has nothing for its MLP to read; use a table whose dim is "
                 "above 1");
  }
  TRIBUTARY_ASSIGN_OR_RETURN(const LossSpec loss, LossFor(spec, info));
  LinearStack stack;
  stack.hidden = model.hidden();
  stack.dropout = static_cast<float>(model.dropout());
  Graph graph = input.NewGraph();
  AddWideAndDeep(input, stack, loss,
                 AddColumns("firsts", {input.Firsts()}, &graph), &graph);
  return graph;
}

void AddWideAndDeep(const FeatureInput& input, const LinearStack& stack,
                    const LossSpec& loss, ValueId terms, Graph* graph) {
  ValueId logit = AddSumOfElements("wide", terms, /*bias=*/false, graph);
  if (input.numbers() > 0) {
    const ValueId numbers = AddColumns("numbers", {input.Numbers()}, graph);
    logit = AddSum("wide_sum", logit,
                   AddLinear("linear", loss.width, numbers, graph), graph);
  }
  const ValueId deep = AddHiddenLayers(
      "hidden", stack,
      AddColumns("deep", {input.Numbers(), input.Rests()}, graph), graph);
  logit = AddSum("logit", logit, AddLinear("output", loss.width, deep, graph),
                 graph);
  graph->SetLoss(loss, logit);
}

}  // namespace tributary
