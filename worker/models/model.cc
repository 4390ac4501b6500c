#include "worker/models/model.h"

#include <utility>

#include "common/base/status_macros.h"
#include "common/job/job.h"
#include "common/job/job_checks.h"
#include "common/job/job_model_validation.h"
#include "worker/models/bert.h"
#include "worker/models/cnn.h"
#include "worker/models/features/dcn_v2.h"
#include "worker/models/features/deepfm.h"
#include "worker/models/features/dlrm.h"
#include "worker/models/features/matrix_factorization.h"
#include "worker/models/features/wide_and_deep.h"
#include "worker/models/gpt.h"
#include "worker/models/initial_weights.h"
#include "worker/models/mlp.h"
#include "worker/models/network_model.h"
#include "worker/models/registered_model.h"
#include "worker/models/resnet.h"
#include "worker/models/synthetic_model.h"
#include "worker/nn/device_inputs.h"
#include "worker/nn/network_plan.h"
#include "worker/nn/weight_copies.h"

namespace tributary {
namespace {

absl::StatusOr<Graph> BuildKind(const ModelSpec& spec, const DataInfo& info,
                                const ModelRegistry& registered) {
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
      return BuildRegisteredModel(spec.external(), info, registered);
    case ModelSpec::kBert:
      return BuildBert(spec, info);
    case ModelSpec::kDlrm:
      return BuildDlrm(spec, info);
    case ModelSpec::kDeepfm:
      return BuildDeepfm(spec, info);
    case ModelSpec::kDcnV2:
      return BuildDcnV2(spec, info);
    case ModelSpec::kWideAndDeep:
      return BuildWideAndDeep(spec, info);
    case ModelSpec::kMatrixFactorization:
      return BuildMatrixFactorization(spec, info);
    case ModelSpec::kSynthetic:  // Has no graph.
    case ModelSpec::KIND_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("model: this worker cannot build its kind");
}

}  // namespace

absl::StatusOr<Graph> BuildGraph(const ModelSpec& spec, const DataInfo& info,
                                 const ModelRegistry& registered) {
  TRIBUTARY_RETURN_IF_ERROR(ValidateValues(spec, "model."));
  TRIBUTARY_RETURN_IF_ERROR(ValidateModel(spec));
  TRIBUTARY_ASSIGN_OR_RETURN(Graph graph, BuildKind(spec, info, registered));
  const auto& frozen = spec.initial_weights().freeze();
  TRIBUTARY_ASSIGN_OR_RETURN(
      const std::vector<int> parameters,
      MatchParameters("model.initial_weights.freeze",
                      {frozen.begin(), frozen.end()}, graph.table()));
  graph.Freeze(parameters);
  return graph;
}

absl::StatusOr<ModelMemory> PlanModelMemory(const ModelSpec& spec,
                                            const DataInfo& info,
                                            int64_t max_samples,
                                            const Device& device,
                                            const ModelRegistry& registered,
                                            const NetworkPart& part) {
  ModelMemory memory;
  if (spec.has_synthetic()) {
    memory.arena_bytes = spec.synthetic().parameters() * int64_t{sizeof(float)};
    return memory;
  }
  TRIBUTARY_ASSIGN_OR_RETURN(const Graph graph,
                             BuildGraph(spec, info, registered));
  TRIBUTARY_RETURN_IF_ERROR(graph.status());
  TRIBUTARY_ASSIGN_OR_RETURN(const NetworkPlan plan,
                             PlanNetwork(graph, max_samples, device, part));
  ParameterTable table = graph.table();
  // Offsets do not depend on this value.
  table.set_chunk_elements(int64_t{1} << 20);
  TRIBUTARY_ASSIGN_OR_RETURN(const ArenaLayout layout,
                             ArenaLayout::Create(table));
  memory.activation_bytes = plan.BytesOf(part.in_flight) +
                            WeightCopies::BytesOf(graph, layout, device, part) +
                            DeviceInputs::BytesOf(graph, max_samples, device);
  memory.arena_bytes = layout.arena_elements() * int64_t{sizeof(float)};
  return memory;
}

absl::StatusOr<std::unique_ptr<Model>> CreateModel(
    const ModelSpec& spec, const DataInfo& info, int64_t max_samples,
    Device* device, WeightCopies* copies, const ModelRegistry& registered,
    const NetworkPart& part) {
  if (spec.has_synthetic()) return SyntheticModel::Create(spec.synthetic());
  TRIBUTARY_ASSIGN_OR_RETURN(Graph graph, BuildGraph(spec, info, registered));
  return NetworkModel::Create(std::move(graph), info, max_samples, device,
                              copies, part);
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

NetworkPart PartOf(const JobSpec& job) {
  NetworkPart part;
  part.recompute = job.parallel().recompute();
  // Parts of the network compute, not the whole.
  if (ComputesInParts(job)) part.in_flight = 0;
  return part;
}

}  // namespace tributary
