#include "worker/models/model.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/models/cnn.h"
#include "worker/models/gpt.h"
#include "worker/models/mlp.h"
#include "worker/models/network_model.h"
#include "worker/models/resnet.h"
#include "worker/models/synthetic.h"
#include "worker/nn/device_inputs.h"
#include "worker/nn/network_plan.h"
#include "worker/nn/weight_copies.h"

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
    case ModelSpec::kExternal:
      return absl::InvalidArgumentError(
          absl::StrCat("model.external: this program has no model \"",
                       spec.external().name(),
                       "\"; start the job with the program that registers it "
                       "(tributary::Main), or with --worker-command"));
    case ModelSpec::kSynthetic:  // Has no graph.
    case ModelSpec::KIND_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("model: this worker cannot build its kind");
}

}  // namespace

absl::StatusOr<ModelMemory> PlanModelMemory(const ModelSpec& spec,
                                            const DataInfo& info,
                                            int64_t max_samples,
                                            const Device& device) {
  ModelMemory memory;
  if (spec.has_synthetic()) {
    memory.arena_bytes = spec.synthetic().parameters() * int64_t{sizeof(float)};
    return memory;
  }
  TRIBUTARY_ASSIGN_OR_RETURN(const Graph graph, BuildGraph(spec, info));
  TRIBUTARY_RETURN_IF_ERROR(graph.status());
  TRIBUTARY_ASSIGN_OR_RETURN(const NetworkPlan plan,
                             PlanNetwork(graph, max_samples, device));
  ParameterTable table = graph.table();
  // Offsets do not depend on this value.
  table.set_chunk_elements(int64_t{1} << 20);
  TRIBUTARY_ASSIGN_OR_RETURN(const ArenaLayout layout,
                             ArenaLayout::Create(table));
  memory.activation_bytes = plan.bytes +
                            WeightCopies::BytesOf(graph, layout, device) +
                            DeviceInputs::BytesOf(graph, max_samples, device);
  memory.arena_bytes = layout.arena_elements() * int64_t{sizeof(float)};
  return memory;
}

absl::StatusOr<std::unique_ptr<Model>> CreateModel(const ModelSpec& spec,
                                                   const DataInfo& info,
                                                   int64_t max_samples,
                                                   Device* device,
                                                   WeightCopies* copies) {
  if (spec.has_synthetic()) return SyntheticModel::Create(spec.synthetic());
  TRIBUTARY_ASSIGN_OR_RETURN(Graph graph, BuildGraph(spec, info));
  return NetworkModel::Create(std::move(graph), info, max_samples, device,
                              copies);
}

Precision PrecisionOf(const JobSpec& job) {
  switch (job.precision()) {
    case JobSpec::BFLOAT16:
      return Precision::kBfloat16;
    case JobSpec::TF32:
      return Precision::kTf32;
    default:
      return Precision::kFloat32;
  }
}

}  // namespace tributary
