#include "worker/models/network_model.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/text/counted.h"
#include "worker/device/reals.h"

namespace tributary {
absl::StatusOr<std::unique_ptr<Model>> NetworkModel::Create(
    Graph graph, const DataInfo& info, int64_t max_samples, Device* device,
    WeightCopies* copies, const NetworkPart& part) {
  TRIBUTARY_ASSIGN_OR_RETURN(
      std::unique_ptr<Network> network,
      Network::Create(std::move(graph), max_samples, device, copies, part));
  return std::unique_ptr<Model>(
      new NetworkModel(std::move(network), info, device));
}

NetworkModel::NetworkModel(std::unique_ptr<Network> network,
                           const DataInfo& info, Device* device)
    : network_(std::move(network)),
      device_(device),
      input_(&network_->graph(), info, network_->max_samples()) {}

const ParameterTable& NetworkModel::table() const {
  return network_->graph().table();
}

void NetworkModel::Initialize(uint64_t seed, const ArenaLayout& layout,
                              float* weights) const {
  network_->Initialize(seed, layout, weights);
}

void NetworkModel::Prefetch(std::shared_ptr<const Batch> batch) {
  if (!device_->has_own_memory()) return;
  const absl::StatusOr<MicroBatchInput> input = input_.InputOf(*batch);
  // ForwardBackward reports the error.
  if (!input.ok()) return;
  network_->Prefetch(*input);
  prefetched_ = std::move(batch);
}

absl::StatusOr<LossSums> NetworkModel::ForwardBackward(
    const Batch& batch, uint64_t seed, int64_t step, int micro_batch,
    const WeightsView& weights, GradientSink* gradients,
    StepObserver* observer) {
  TRIBUTARY_ASSIGN_OR_RETURN(MicroBatchInput input, input_.InputOf(batch));
  input.prefetched = prefetched_.get() == &batch;
  prefetched_.reset();
  return network_->ForwardBackward(input, seed, step, micro_batch, weights,
                                   gradients, observer);
}

absl::StatusOr<LossSums> NetworkModel::Evaluate(const Batch& batch,
                                                const float* weights) {
  TRIBUTARY_ASSIGN_OR_RETURN(const MicroBatchInput input,
                             input_.InputOf(batch));
  prefetched_.reset();
  return network_->Evaluate(input, weights);
}

ModelOutputs NetworkModel::outputs() const {
  const LossSpec& loss = network_->graph().loss();
  ModelOutputs outputs;
  outputs.count = loss.rows * (loss.width - loss.padding);
  if (loss.kind == LossSpec::Kind::kSoftmaxCrossEntropy && loss.rows == 1) {
    outputs.kind = ModelOutputs::Kind::kLogits;
  } else if (loss.kind == LossSpec::Kind::kBinaryCrossEntropy &&
             loss.rows == 1) {
    outputs.kind = ModelOutputs::Kind::kBinaryLogit;
  }
  return outputs;
}

absl::Status NetworkModel::Predict(const Batch& batch, const float* weights,
                                   std::vector<float>* outputs) {
  if (input_.info().kind == DataInfo::Kind::kTokens) {
    return absl::UnimplementedError("model.gpt generates text; use sample");
  }
  TRIBUTARY_ASSIGN_OR_RETURN(const MicroBatchInput input,
                             input_.FeaturesOf(batch));
  outputs->clear();
  if (batch.samples == 0) return absl::OkStatus();
  prefetched_.reset();
  const Real* const predicted = network_->Predict(input, weights);
  const LossSpec& loss = network_->graph().loss();
  const int64_t count = batch.samples * loss.rows;
  std::vector<float> rows(static_cast<size_t>(count * loss.width));
  TRIBUTARY_RETURN_IF_ERROR(CopyRealsToHost(
      device_, predicted, static_cast<int64_t>(rows.size()), rows.data()));
  const int64_t kept = loss.width - loss.padding;
  outputs->reserve(static_cast<size_t>(count * kept));
  for (int64_t row = 0; row < count; ++row) {
    const auto begin = rows.begin() + row * loss.width;
    outputs->insert(outputs->end(), begin, begin + kept);
  }
  return absl::OkStatus();
}

absl::Status NetworkModel::NextTokenLogits(absl::Span<const int32_t> tokens,
                                           const float* weights,
                                           absl::Span<float> logits) {
  if (input_.info().kind != DataInfo::Kind::kTokens) {
    return absl::UnimplementedError("only model.gpt predicts tokens");
  }
  const int64_t context = input_.info().sample_shape[0];
  const LossSpec& loss = network_->graph().loss();
  const int64_t vocabulary = loss.width - loss.padding;
  if (tokens.empty()) {
    return absl::InvalidArgumentError(
        "tokens is empty, expected at least one token");
  }
  if (static_cast<int64_t>(logits.size()) != vocabulary) {
    return absl::InvalidArgumentError(absl::StrCat(
        "room for ", logits.size(), " logits, ", vocabulary, " wanted"));
  }
  if (static_cast<int64_t>(tokens.size()) > context) {
    tokens.remove_prefix(tokens.size() - context);
  }
  // Tokens after the last one have no effect because attention is causal.
  window_.assign(context, 0);
  std::copy(tokens.begin(), tokens.end(), window_.begin());
  for (const int32_t token : window_) {
    if (token >= 0 && token < vocabulary) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("token ", token, " is not from 0 to ", vocabulary - 1));
  }
  prefetched_.reset();
  const Real* predicted =
      network_->Predict({/*samples=*/1, window_.data()}, weights);
  return CopyRealsToHost(
      device_,
      RealAt(*device_, predicted,
             (static_cast<int64_t>(tokens.size()) - 1) * loss.width),
      vocabulary, logits.data());
}

}  // namespace tributary
