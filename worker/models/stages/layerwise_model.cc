#include "worker/models/stages/layerwise_model.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>

#include "common/base/buffer_pool.h"
#include "common/base/status_macros.h"
#include "worker/nn/network_cuts.h"
#include "worker/nn/network_part.h"
#include "worker/nn/network_structure.h"

namespace tributary {
namespace {

int64_t ParameterElements(const Graph& graph, const ArenaLayout& layout,
                          int begin, int end) {
  std::set<int> parameters;
  for (int i = begin; i < end; ++i) {
    const std::vector<int>& list = graph.nodes()[i].parameters;
    parameters.insert(list.begin(), list.end());
  }
  int64_t elements = 0;
  for (const int parameter : parameters) {
    elements += layout.parameters()[parameter].size;
  }
  return elements;
}

// Divides the layers at residual connections, into groups of at least a chunk:
// smaller groups would fetch the same chunk one after the other.
std::vector<int> GroupCuts(const Graph& graph, const ArenaLayout& layout) {
  const int count = static_cast<int>(graph.nodes().size());
  std::vector<int> cuts;
  int begin = 0;
  for (const int end : BlockEnds(graph, 0, count)) {
    if (end == count) break;
    if (ParameterElements(graph, layout, begin, end) <
            layout.chunk_elements() ||
        ParameterElements(graph, layout, end, count) == 0) {
      continue;
    }
    cuts.push_back(end);
    begin = end;
  }
  return cuts;
}

}  // namespace

LayerwiseModel::LayerwiseModel(StageSplit split)
    : split_(std::move(split)), shared_(nullptr, [](void*) {}) {}

absl::StatusOr<std::unique_ptr<LayerwiseModel>> LayerwiseModel::Create(
    const std::function<absl::StatusOr<Graph>()>& build,
    const ArenaLayout& layout, const DataInfo& info, int64_t max_samples,
    Device* device, bool recompute) {
  TRIBUTARY_ASSIGN_OR_RETURN(const Graph whole, build());
  TRIBUTARY_ASSIGN_OR_RETURN(
      StageSplit split,
      SplitIntoStages(whole, layout, GroupCuts(whole, layout)));
  std::unique_ptr<LayerwiseModel> model(new LayerwiseModel(std::move(split)));
  const std::vector<StageSplit::Stage>& groups = model->split_.stages;
  std::vector<NetworkPart> parts(groups.size());
  for (size_t i = 0; i < groups.size(); ++i) {
    parts[i].begin = groups[i].begin;
    parts[i].end = groups[i].end;
    parts[i].recompute = recompute;
    // Backward of the last group follows its forward at once.
    parts[i].shares_memory = i + 1 < groups.size();
    if (!parts[i].shares_memory) continue;
    TRIBUTARY_ASSIGN_OR_RETURN(Graph graph, build());
    TRIBUTARY_ASSIGN_OR_RETURN(
        const NetworkStructure planned,
        NetworkStructure::Create(std::move(graph), max_samples, *device,
                                 parts[i]));
    model->shared_bytes_ =
        std::max(model->shared_bytes_, planned.plan.SharedBytes());
  }
  TRIBUTARY_ASSIGN_OR_RETURN(
      model->shared_,
      device->Allocate(static_cast<size_t>(model->shared_bytes_)));
  for (const NetworkPart& part : parts) {
    TRIBUTARY_ASSIGN_OR_RETURN(Graph graph, build());
    TRIBUTARY_ASSIGN_OR_RETURN(
        std::unique_ptr<StageModel> group,
        StageModel::Create(
            std::move(graph), info, max_samples, device, part,
            part.shares_memory ? model->shared_.get() : nullptr));
    model->models_.push_back(std::move(group));
  }
  TRIBUTARY_RETURN_IF_ERROR(model->AddSlots(1));
  return model;
}

absl::Status LayerwiseModel::AddSlots(int count) {
  if (count <= slots_) return absl::OkStatus();
  for (int i = 0; i + 1 < groups(); ++i) {
    TRIBUTARY_RETURN_IF_ERROR(models_[i]->AddSlots(count));
  }
  slots_ = count;
  boundary_.resize(slots_);
  return absl::OkStatus();
}

int64_t LayerwiseModel::ActivationBytes(int slots) const {
  int64_t bytes = BlockBytes(shared_bytes_) +
                  BlockBytes(models_.back()->structure().plan.bytes);
  int64_t crossing = 0;
  for (int i = 0; i + 1 < groups(); ++i) {
    bytes += slots * BlockBytes(models_[i]->structure().plan.kept_bytes);
    crossing = std::max(
        crossing, models_[i]->SentBytes(models_[i]->structure().max_samples));
  }
  return bytes + slots * crossing;
}

void LayerwiseModel::Keep(int slot,
                          const std::vector<absl::string_view>& parts) {
  boundary_[slot].clear();
  for (const absl::string_view part : parts) {
    boundary_[slot].append(part.data(), part.size());
  }
}

absl::Status LayerwiseModel::Begin(int group, int slot, const Batch& batch,
                                   const NetworkPass::MicroBatch& micro_batch) {
  StageModel& model = *models_[group];
  return model.Begin(SlotOf(group, slot),
                     model.reads_batches() ? &batch : nullptr, batch.samples,
                     boundary_[slot].data(), micro_batch);
}

absl::Status LayerwiseModel::Forward(
    int group, int slot, const Batch& batch,
    const NetworkPass::MicroBatch& micro_batch) {
  TRIBUTARY_RETURN_IF_ERROR(Begin(group, slot, batch, micro_batch));
  StageModel& model = *models_[group];
  if (!model.Forward(slot)) {
    return absl::AbortedError("the micro-batch was given up");
  }
  TRIBUTARY_ASSIGN_OR_RETURN(const std::vector<absl::string_view> values,
                             model.SentValues(slot));
  Keep(slot, values);
  return absl::OkStatus();
}

absl::StatusOr<LossSums> LayerwiseModel::Turn(
    int slot, const Batch& batch, const NetworkPass::MicroBatch& micro_batch) {
  const int group = groups() - 1;
  TRIBUTARY_RETURN_IF_ERROR(Begin(group, slot, batch, micro_batch));
  StageModel& model = *models_[group];
  if (!model.Forward(/*slot=*/0)) {
    return absl::AbortedError("the micro-batch was given up");
  }
  TRIBUTARY_ASSIGN_OR_RETURN(const LossSums loss, model.Loss(/*slot=*/0));
  if (micro_batch.observer != nullptr) {
    micro_batch.observer->OnPhase(StepObserver::Phase::kBackward);
  }
  model.Backward(/*slot=*/0, /*gradients=*/nullptr);
  TRIBUTARY_ASSIGN_OR_RETURN(const std::vector<absl::string_view> gradients,
                             model.SentGradients(/*slot=*/0));
  Keep(slot, gradients);
  model.End(/*slot=*/0);
  return loss;
}

absl::Status LayerwiseModel::Backward(int group, int slot) {
  StageModel& model = *models_[group];
  model.Backward(slot, boundary_[slot].data());
  TRIBUTARY_ASSIGN_OR_RETURN(const std::vector<absl::string_view> gradients,
                             model.SentGradients(slot));
  Keep(slot, gradients);
  model.End(slot);
  return absl::OkStatus();
}

absl::Status LayerwiseModel::Evaluate(int group, int slot, const Batch& batch,
                                      const float* weights, LossSums* loss) {
  StageModel& model = *models_[group];
  TRIBUTARY_RETURN_IF_ERROR(
      model.Evaluate(model.reads_batches() ? &batch : nullptr, batch.samples,
                     boundary_[slot].data(), weights));
  if (IsLast(group)) {
    TRIBUTARY_ASSIGN_OR_RETURN(*loss, model.EvaluationLoss());
    return absl::OkStatus();
  }
  TRIBUTARY_ASSIGN_OR_RETURN(const std::vector<absl::string_view> values,
                             model.SentEvaluation());
  Keep(slot, values);
  return absl::OkStatus();
}

}  // namespace tributary
