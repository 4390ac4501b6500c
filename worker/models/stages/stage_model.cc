#include "worker/models/stages/stage_model.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "common/base/status_macros.h"

namespace tributary {
namespace {

using Crossing = NetworkPlan::Crossing;

int64_t TotalBytesOf(const std::vector<Crossing>& crossings,
                     const NetworkStructure& structure, int64_t samples) {
  int64_t bytes = 0;
  for (const Crossing& crossing : crossings) {
    bytes += crossing.bytes / structure.max_samples * samples;
  }
  return bytes;
}

}  // namespace

absl::StatusOr<std::unique_ptr<StageModel>> StageModel::Create(
    Graph graph, const DataInfo& info, int64_t max_samples, Device* device,
    const NetworkPart& part, void* shared) {
  auto copies = std::make_unique<WeightCopies>();
  TRIBUTARY_ASSIGN_OR_RETURN(
      std::unique_ptr<Network> network,
      Network::Create(std::move(graph), max_samples, device, copies.get(), part,
                      shared));
  return std::unique_ptr<StageModel>(
      new StageModel(std::move(copies), std::move(network), info, device));
}

StageModel::StageModel(std::unique_ptr<WeightCopies> copies,
                       std::unique_ptr<Network> network, const DataInfo& info,
                       Device* device)
    : copies_(std::move(copies)),
      network_(std::move(network)),
      device_(device),
      input_(&network_->graph(), info, network_->max_samples()),
      samples_(structure().part.in_flight) {}

absl::Status StageModel::AddSlots(int count) {
  samples_.resize(std::max(samples_.size(), static_cast<size_t>(count)));
  return network_->AddPasses(count);
}

int64_t StageModel::ReceivedBytes(int64_t samples) const {
  return TotalBytesOf(structure().plan.received, structure(), samples);
}

int64_t StageModel::SentBytes(int64_t samples) const {
  return TotalBytesOf(structure().plan.sent, structure(), samples);
}

absl::StatusOr<MicroBatchInput> StageModel::InputOf(const Batch* batch,
                                                    int64_t samples) {
  if (batch == nullptr) {
    MicroBatchInput input;
    input.samples = samples;
    return input;
  }
  return is_last() ? input_.InputOf(*batch) : input_.FeaturesOf(*batch);
}

absl::Status StageModel::Begin(int slot, const Batch* batch, int64_t samples,
                               const char* values,
                               const NetworkPass::MicroBatch& micro_batch) {
  TRIBUTARY_ASSIGN_OR_RETURN(const MicroBatchInput input,
                             InputOf(batch, samples));
  samples_[slot] = samples;
  network_->pass(slot)->Begin(input, micro_batch);
  Write(slot, structure().plan.received, &Crossing::place, values);
  return absl::OkStatus();
}

bool StageModel::Forward(int slot) {
  const NetworkPlan& plan = structure().plan;
  return network_->pass(slot)->Forward(plan.begin, plan.end);
}

absl::StatusOr<std::vector<absl::string_view>> StageModel::SentValues(
    int slot) {
  return Read(slot, structure().plan.sent, &Crossing::place);
}

absl::StatusOr<LossSums> StageModel::Loss(int slot) {
  network_->pass(slot)->BeginLoss();
  return network_->pass(slot)->AwaitLoss();
}

void StageModel::Backward(int slot, const char* gradients) {
  const NetworkPlan& plan = structure().plan;
  Write(slot, plan.sent, &Crossing::gradient, gradients);
  network_->pass(slot)->SelectRandomNumbers();
  network_->pass(slot)->Backward(plan.begin, plan.end);
}

absl::StatusOr<std::vector<absl::string_view>> StageModel::SentGradients(
    int slot) {
  return Read(slot, structure().plan.received, &Crossing::gradient);
}

bool StageModel::backward_needs_parts() const {
  const std::vector<NetworkPlan::Node>& nodes = structure().plan.nodes;
  return std::any_of(nodes.begin(), nodes.end(),
                     [](const NetworkPlan::Node& node) {
                       return node.awaits_later_parts && !node.separate_weights;
                     });
}

absl::Status StageModel::Evaluate(const Batch* batch, int64_t samples,
                                  const char* values, const float* weights) {
  TRIBUTARY_ASSIGN_OR_RETURN(const MicroBatchInput input,
                             InputOf(batch, samples));
  samples_[0] = samples;
  network_->pass(0)->BeginEvaluation(input);
  Write(/*slot=*/0, structure().plan.received, &Crossing::evaluation_place,
        values);
  network_->pass(0)->Evaluate(samples, weights);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<absl::string_view>> StageModel::SentEvaluation() {
  return Read(/*slot=*/0, structure().plan.sent, &Crossing::evaluation_place);
}

absl::StatusOr<LossSums> StageModel::EvaluationLoss() {
  network_->pass(0)->BeginEvaluationLoss(samples_[0]);
  return network_->pass(0)->AwaitLoss();
}

void StageModel::Write(int slot, const Crossings& crossings, Place place,
                       const char* bytes) {
  for (const Crossing& crossing : crossings) {
    const int64_t size =
        crossing.bytes / structure().max_samples * samples_[slot];
    if (crossing.*place >= 0) {
      device_->CopyFromHost(network_->pass(slot)->At(crossing.*place), bytes,
                            static_cast<size_t>(size));
    }
    bytes += size;
  }
}

absl::StatusOr<std::vector<absl::string_view>> StageModel::Read(
    int slot, const Crossings& crossings, Place place) {
  std::vector<absl::string_view> parts;
  staging_.resize(crossings.size());
  for (size_t i = 0; i < crossings.size(); ++i) {
    const auto size = static_cast<size_t>(
        crossings[i].bytes / structure().max_samples * samples_[slot]);
    const bool exists = crossings[i].*place >= 0;
    const char* from = exists
                           ? static_cast<const char*>(
                                 network_->pass(slot)->At(crossings[i].*place))
                           : nullptr;
    if (!exists || device_->has_own_memory()) {
      staging_[i].resize(size);
      if (exists) {
        TRIBUTARY_RETURN_IF_ERROR(
            device_->CopyToHost(staging_[i].data(), from, size));
      }
      from = staging_[i].data();
    }
    parts.emplace_back(from, size);
  }
  return parts;
}

}  // namespace tributary
