#include "worker/models/features/deepfm.h"

#include <memory>

#include "common/base/status_macros.h"
#include "worker/models/blocks/linear_stack.h"
#include "worker/models/blocks/spec_checks.h"
#include "worker/models/features/feature_input.h"
#include "worker/models/features/wide_and_deep.h"
#include "worker/nn/layers/interaction/vector_pairs.h"

namespace tributary {

absl::StatusOr<Graph> BuildDeepfm(const ModelSpec& spec, const DataInfo& info) {
  const DeepfmSpec& deepfm = spec.deepfm();
  TRIBUTARY_ASSIGN_OR_RETURN(const FeatureInput input,
                             FeatureInput::Create(spec, info));
  TRIBUTARY_ASSIGN_OR_RETURN(const LossSpec loss, LossFor(spec, info));
  LinearStack stack;
  stack.hidden = deepfm.hidden();
  stack.dropout = static_cast<float>(deepfm.dropout());
  Graph graph = input.NewGraph();
  const ValueId pairs = graph.Add(
      "pairs", std::make_unique<PairSum>(input.features(), input.dims()[0] - 1),
      {AddColumns("vectors", {input.Rests()}, &graph)});
  const ValueId firsts = AddColumns("firsts", {input.Firsts()}, &graph);
  AddWideAndDeep(input, stack, loss,
                 AddConcatenation("terms", firsts, pairs, &graph), &graph);
  return graph;
}

}  // namespace tributary
