#include "worker/models/blocks/linear_stack.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "worker/models/blocks/spec_checks.h"
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

}  // namespace tributary
