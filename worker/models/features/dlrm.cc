#include "worker/models/features/dlrm.h"

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/field_checks.h"
#include "common/base/status_macros.h"
#include "worker/models/blocks/linear_stack.h"
#include "worker/models/blocks/spec_checks.h"
#include "worker/models/features/feature_input.h"
#include "worker/nn/layers/interaction/vector_pairs.h"

namespace tributary {

absl::StatusOr<Graph> BuildDlrm(const ModelSpec& spec, const DataInfo& info) {
  const DlrmSpec& dlrm = spec.dlrm();
  TRIBUTARY_ASSIGN_OR_RETURN(const FeatureInput input,
                             FeatureInput::Create(spec, info));
  if (input.numbers() == 0) {
    return Error("model.dlrm",
                 "reads numbers, but the data have only features; use "
                 "model.dcn_v2, deepfm or wide_and_deep");
  }
  TRIBUTARY_ASSIGN_OR_RETURN(const LossSpec loss, LossFor(spec, info));
  const int64_t dim = input.dims()[0];
  Graph graph = input.NewGraph();
  std::vector<int64_t> bottom(dlrm.bottom().begin(), dlrm.bottom().end());
  bottom.push_back(dim);
  const ValueId numbers =
      AddHiddenLayers("bottom", LinearStack{bottom},
                      AddColumns("numbers", {input.Numbers()}, &graph), &graph);
  const ValueId vectors = AddConcatenation(
      "vectors", numbers, AddColumns("features", {input.Vectors()}, &graph),
      &graph);
  const ValueId pairs =
      graph.Add("pairs", std::make_unique<PairDots>(input.features() + 1, dim),
                {vectors});
  const ValueId top = AddHiddenLayers(
      "top", LinearStack{dlrm.top()},
      AddConcatenation("interactions", numbers, pairs, &graph), &graph);
  graph.SetLoss(loss, AddLinear(absl::StrCat("top.", dlrm.top_size()),
                                loss.width, top, &graph));
  return graph;
}

}  // namespace tributary
