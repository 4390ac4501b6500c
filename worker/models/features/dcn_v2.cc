#include "worker/models/features/dcn_v2.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/models/blocks/linear_stack.h"
#include "worker/models/blocks/spec_checks.h"
#include "worker/models/features/feature_input.h"
#include "worker/nn/layers/interaction/product.h"
#include "worker/nn/layers/linear.h"

namespace tributary {
namespace {

// Adds W x + b.
ValueId AddCrossLinear(const std::string& name, int64_t rank, ValueId x,
                       Graph* graph) {
  const int64_t size = graph->values()[x];
  if (rank == 0) return AddLinear(name, size, x, graph);
  Linear::Options options = Linear::FanInOptions(size, rank);
  options.bias = false;
  const ValueId projected =
      graph->Add(name + ".v", std::make_unique<Linear>(options), {x});
  return AddLinear(name + ".u", size, projected, graph);
}

}  // namespace

absl::StatusOr<Graph> BuildDcnV2(const ModelSpec& spec, const DataInfo& info) {
  const DcnV2Spec& dcn = spec.dcn_v2();
  TRIBUTARY_ASSIGN_OR_RETURN(const FeatureInput input,
                             FeatureInput::Create(spec, info));
  TRIBUTARY_ASSIGN_OR_RETURN(const LossSpec loss, LossFor(spec, info));
  Graph graph = input.NewGraph();
  const ValueId x0 = graph.input();
  ValueId x = x0;
  for (int i = 0; i < dcn.cross_layers(); ++i) {
    const std::string name = absl::StrCat("cross.", i);
    const ValueId product = graph.Add(
        name + ".product", std::make_unique<Product>(graph.values()[x0]),
        {x0, AddCrossLinear(name, dcn.rank(), x, &graph)});
    x = AddSum(name + ".sum", x, product, &graph);
  }
  if (!dcn.hidden().empty()) {
    LinearStack stack;
    stack.hidden = dcn.hidden();
    stack.dropout = static_cast<float>(dcn.dropout());
    x = AddConcatenation("outputs", x,
                         AddHiddenLayers("hidden", stack, x0, &graph), &graph);
  }
  graph.SetLoss(loss, AddLinear("output", loss.width, x, &graph));
  return graph;
}

}  // namespace tributary
