#include "worker/models/model.h"

#include <utility>

#include "common/status_macros.h"
#include "worker/models/cnn.h"
#include "worker/models/gpt.h"
#include "worker/models/mlp.h"
#include "worker/models/network_model.h"
#include "worker/models/resnet.h"
#include "worker/models/synthetic.h"

namespace tributary {
namespace {

absl::StatusOr<Graph> BuildGraph(const ModelSpec& spec, const DataInfo& info) {
  switch (spec.kind_case()) {
    case ModelSpec::kMlp:
      return BuildMlp(spec, info);
    case ModelSpec::kCnn:
      return BuildCnn(spec, info);
    case ModelSpec::kResnet:
      return BuildResnet(spec, info);
    case ModelSpec::kGpt:
      return BuildGpt(spec, info);
    case ModelSpec::kSynthetic:  // Has no graph.
    case ModelSpec::KIND_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "model: set one of mlp, cnn, resnet and gpt");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> CreateModel(const ModelSpec& spec,
                                                   const DataInfo& info,
                                                   int64_t max_samples,
                                                   Device* device) {
  if (spec.has_synthetic()) return SyntheticModel::Create(spec.synthetic());
  TRIBUTARY_ASSIGN_OR_RETURN(Graph graph, BuildGraph(spec, info));
  return NetworkModel::Create(std::move(graph), info, max_samples, device);
}

}  // namespace tributary
