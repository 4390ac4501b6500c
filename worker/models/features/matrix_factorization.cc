#include "worker/models/features/matrix_factorization.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/models/blocks/linear_stack.h"
#include "worker/models/blocks/spec_checks.h"
#include "worker/models/features/feature_input.h"
#include "worker/nn/layers/interaction/block_sum.h"
#include "worker/nn/layers/interaction/vector_pairs.h"

namespace tributary {
namespace {

// Adds the tower of features [begin, end), and returns its vector.
ValueId AddTower(const std::string& name, const FeatureInput& input,
                 int64_t begin, int64_t end,
                 const MatrixFactorizationSpec& model, Graph* graph) {
  ValueId value =
      AddColumns(name + ".vectors", {input.Rests(begin, end)}, graph);
  std::vector<int64_t> hidden(model.hidden().begin(), model.hidden().end());
  if (!hidden.empty()) {
    const int64_t last = hidden.back();
    hidden.pop_back();
    value = AddHiddenLayers(name, LinearStack{hidden}, value, graph);
    return AddLinear(absl::StrCat(name, ".", hidden.size()), last, value,
                     graph);
  }
  BlockSum::Options options;
  options.count = end - begin;
  options.width = input.dims()[0] - 1;
  return graph->Add(name + ".sum", std::make_unique<BlockSum>(options),
                    {value});
}

}  // namespace

absl::StatusOr<Graph> BuildMatrixFactorization(const ModelSpec& spec,
                                               const DataInfo& info) {
  const MatrixFactorizationSpec& model = spec.matrix_factorization();
  TRIBUTARY_ASSIGN_OR_RETURN(const FeatureInput input,
                             FeatureInput::Create(spec, info));
  TRIBUTARY_ASSIGN_OR_RETURN(const LossSpec loss, LossFor(spec, info));
  const int64_t item =
      std::find(info.vector_names.begin(), info.vector_names.end(),
                model.item_feature()) -
      info.vector_names.begin();
  Graph graph = input.NewGraph();
  const ValueId user = AddTower("user", input, 0, item, model, &graph);
  const ValueId other =
      AddTower("item", input, item, input.features(), model, &graph);
  const ValueId dot =
      graph.Add("dot", std::make_unique<PairDots>(2, graph.values()[user]),
                {AddConcatenation("towers", user, other, &graph)});
  const ValueId terms = AddConcatenation(
      "terms", AddColumns("biases", {input.Firsts()}, &graph), dot, &graph);
  graph.SetLoss(loss, AddSumOfElements("output", terms, /*bias=*/true, &graph));
  return graph;
}

}  // namespace tributary
