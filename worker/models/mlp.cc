#include "worker/models/mlp.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "common/base/field_checks.h"
#include "common/base/status_macros.h"
#include "worker/models/spec_checks.h"
#include "worker/nn/layers/dropout.h"
#include "worker/nn/layers/linear.h"

namespace tributary {
namespace {

ValueId AddDropout(absl::string_view name, float rate, ValueId value,
                   Graph* graph) {
  if (rate == 0) return value;
  return graph->Add(
      name, std::make_unique<Dropout>(graph->values()[value], rate), {value});
}

}  // namespace

ValueId AddLinear(absl::string_view name, int64_t outputs, ValueId value,
                  Graph* graph) {
  return graph->Add(name,
                    std::make_unique<Linear>(
                        Linear::FanInOptions(graph->values()[value], outputs)),
                    {value});
}

ValueId AddHiddenLayers(absl::string_view prefix, const LinearStack& stack,
                        ValueId value, Graph* graph) {
  for (size_t i = 0; i < stack.hidden.size(); ++i) {
    const std::string name = absl::StrCat(prefix, ".", i);
    const std::string dropout_name = absl::StrCat(name, ".dropout");
    if (stack.dropout_first) {
      value = AddDropout(dropout_name, stack.dropout, value, graph);
    }
    value = AddLinear(name, stack.hidden[i], value, graph);
    value = AddActivation(absl::StrCat(name, ".activation"), stack.activation,
                          value, graph);
    if (!stack.dropout_first) {
      value = AddDropout(dropout_name, stack.dropout, value, graph);
    }
  }
  return value;
}

void AddLinearStack(const LinearStack& stack, const LossSpec& loss,
                    ValueId value, Graph* graph) {
  value = AddHiddenLayers("hidden", stack, value, graph);
  if (stack.dropout_first) {
    value = AddDropout("output.dropout", stack.dropout, value, graph);
  }
  value = AddLinear("output", loss.width, value, graph);
  graph->SetLoss(loss, value);
}

absl::StatusOr<Graph> BuildMlp(const ModelSpec& spec, const DataInfo& info) {
  const MlpSpec& mlp = spec.mlp();
  if (info.kind == DataInfo::Kind::kTokens ||
      info.kind == DataInfo::Kind::kSequences) {
    return Error("model.mlp", "cannot learn text; use model.gpt");
  }
  if (info.kind == DataInfo::Kind::kIndexes) {
    return Error("model.mlp", "needs samples; the data are indexes");
  }
  TRIBUTARY_ASSIGN_OR_RETURN(const LossSpec loss, LossFor(spec, info));

  int64_t features = 1;
  for (const int64_t size : info.sample_shape) features *= size;
  Graph graph(features);
  LinearStack stack;
  stack.hidden = mlp.hidden();
  stack.activation = mlp.activation();
  stack.dropout = static_cast<float>(mlp.dropout());
  AddLinearStack(stack, loss, graph.input(), &graph);
  return graph;
}

}  // namespace tributary
