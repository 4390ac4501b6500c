#include "worker/models/mlp.h"

#include "common/base/field_checks.h"
#include "common/base/status_macros.h"
#include "worker/models/blocks/linear_stack.h"
#include "worker/models/blocks/spec_checks.h"

namespace tributary {

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
