#include "worker/models/network_model.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/text/counted.h"
#include "worker/device/reals.h"

namespace tributary {
namespace {

// Checks that a vector of a batch has `per_sample` elements for each sample.
absl::Status CheckSize(absl::string_view what, size_t size, int64_t samples,
                       int64_t per_sample) {
  if (static_cast<int64_t>(size) == samples * per_sample) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the batch of ", Counted(samples, "sample"), " has ", size,
                   " ", what, ", expected ", samples * per_sample, " (",
                   per_sample, " for each sample)"));
}

absl::Status CheckValues(absl::string_view what,
                         const std::vector<int32_t>& values, int64_t lowest,
                         int64_t limit) {
  for (const int32_t value : values) {
    if (value < lowest || value >= limit) {
      return absl::InvalidArgumentError(
          absl::StrCat("the batch has the ", what, " ", value, ", not from ",
                       lowest, " to ", limit - 1));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> NetworkModel::Create(
    Graph graph, const DataInfo& info, int64_t max_samples, Device* device,
    WeightCopies* copies) {
  TRIBUTARY_ASSIGN_OR_RETURN(
      std::unique_ptr<Network> network,
      Network::Create(std::move(graph), max_samples, device, copies));
  return std::unique_ptr<Model>(
      new NetworkModel(std::move(network), info, device));
}

NetworkModel::NetworkModel(std::unique_ptr<Network> network,
                           const DataInfo& info, Device* device)
    : network_(std::move(network)), info_(info), device_(device) {}

const ParameterTable& NetworkModel::table() const {
  return network_->graph().table();
}

void NetworkModel::Initialize(uint64_t seed, const ArenaLayout& layout,
                              float* weights) const {
  network_->Initialize(seed, layout, weights);
}

void NetworkModel::Prefetch(std::shared_ptr<const Batch> batch) {
  if (!device_->has_own_memory()) return;
  const absl::StatusOr<MicroBatchInput> input = InputOf(*batch);
  // ForwardBackward reports the error.
  if (!input.ok()) return;
  network_->Prefetch(*input);
  prefetched_ = std::move(batch);
}

absl::StatusOr<LossSums> NetworkModel::ForwardBackward(
    const Batch& batch, uint64_t seed, int64_t step, int micro_batch,
    const WeightsView& weights, GradientSink* gradients,
    StepObserver* observer) {
  TRIBUTARY_ASSIGN_OR_RETURN(MicroBatchInput input, InputOf(batch));
  input.prefetched = prefetched_.get() == &batch;
  prefetched_.reset();
  return network_->ForwardBackward(input, seed, step, micro_batch, weights,
                                   gradients, observer);
}

absl::StatusOr<LossSums> NetworkModel::Evaluate(const Batch& batch,
                                                const float* weights) {
  TRIBUTARY_ASSIGN_OR_RETURN(const MicroBatchInput input, InputOf(batch));
  prefetched_.reset();
  return network_->Evaluate(input, weights);
}

absl::StatusOr<MicroBatchInput> NetworkModel::FeaturesOf(const Batch& batch) {
  if (batch.samples < 0 || batch.samples > network_->max_samples()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the batch has ", Counted(batch.samples, "sample"), "; the model is ",
        "planned for up to ", network_->max_samples()));
  }
  MicroBatchInput micro_batch;
  micro_batch.samples = batch.samples;
  const int64_t input_elements = network_->graph().values()[0];
  if (info_.kind == DataInfo::Kind::kTokens) {
    TRIBUTARY_RETURN_IF_ERROR(CheckSize("tokens", batch.tokens.size(),
                                        batch.samples, input_elements));
    TRIBUTARY_RETURN_IF_ERROR(
        CheckValues("token", batch.tokens, /*lowest=*/0, info_.classes));
    micro_batch.input = batch.tokens.data();
  } else if (info_.kind == DataInfo::Kind::kSequences) {
    TRIBUTARY_RETURN_IF_ERROR(PackSequences(batch));
    micro_batch.input = sequences_.data();
  } else {
    TRIBUTARY_RETURN_IF_ERROR(CheckSize("features", batch.features.size(),
                                        batch.samples, input_elements));
    micro_batch.input = batch.features.data();
  }
  return micro_batch;
}

absl::StatusOr<MicroBatchInput> NetworkModel::InputOf(const Batch& batch) {
  TRIBUTARY_ASSIGN_OR_RETURN(MicroBatchInput micro_batch, FeaturesOf(batch));
  const LossSpec& loss = network_->graph().loss();
  const int64_t targets = loss.TargetElements();
  if (loss.HasLabels()) {
    const int64_t classes = loss.kind == LossSpec::Kind::kSoftmaxCrossEntropy
                                ? loss.width - loss.padding
                                : info_.classes;
    TRIBUTARY_RETURN_IF_ERROR(
        CheckSize("labels", batch.labels.size(), batch.samples, targets));
    TRIBUTARY_RETURN_IF_ERROR(
        CheckValues("label", batch.labels, /*lowest=*/-1, classes));
    micro_batch.target = batch.labels.data();
  } else {
    TRIBUTARY_RETURN_IF_ERROR(
        CheckSize("values", batch.values.size(), batch.samples, targets));
    micro_batch.target = batch.values.data();
  }
  return micro_batch;
}

absl::Status NetworkModel::PackSequences(const Batch& batch) {
  const int64_t context = info_.sample_shape[0];
  TRIBUTARY_RETURN_IF_ERROR(
      CheckSize("tokens", batch.tokens.size(), batch.samples, context));
  TRIBUTARY_RETURN_IF_ERROR(CheckSize("token types", batch.token_types.size(),
                                      batch.samples, context));
  TRIBUTARY_RETURN_IF_ERROR(
      CheckSize("lengths", batch.lengths.size(), batch.samples, 1));
  TRIBUTARY_RETURN_IF_ERROR(
      CheckValues("token", batch.tokens, /*lowest=*/0, info_.vocabulary));
  TRIBUTARY_RETURN_IF_ERROR(CheckValues("token type", batch.token_types,
                                        /*lowest=*/0, info_.token_types));
  TRIBUTARY_RETURN_IF_ERROR(CheckValues("length", batch.lengths, /*lowest=*/1,
                                        info_.sample_shape[0] + 1));
  sequences_.clear();
  for (const auto* part : {&batch.tokens, &batch.token_types, &batch.lengths}) {
    sequences_.insert(sequences_.end(), part->begin(), part->end());
  }
  return absl::OkStatus();
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
  if (info_.kind == DataInfo::Kind::kTokens) {
    return absl::UnimplementedError("model.gpt generates text; use sample");
  }
  TRIBUTARY_ASSIGN_OR_RETURN(const MicroBatchInput input, FeaturesOf(batch));
  outputs->clear();
  if (batch.samples == 0) return absl::OkStatus();
  prefetched_.reset();
  const Real* const predicted =
      network_->Predict(batch.samples, input.input, weights);
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
  if (info_.kind != DataInfo::Kind::kTokens) {
    return absl::UnimplementedError("only model.gpt predicts tokens");
  }
  const int64_t context = info_.sample_shape[0];
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
  TRIBUTARY_RETURN_IF_ERROR(
      CheckValues("token", window_, /*lowest=*/0, vocabulary));
  prefetched_.reset();
  const Real* predicted =
      network_->Predict(/*samples=*/1, window_.data(), weights);
  return CopyRealsToHost(
      device_,
      RealAt(*device_, predicted,
             (static_cast<int64_t>(tokens.size()) - 1) * loss.width),
      vocabulary, logits.data());
}

}  // namespace tributary
