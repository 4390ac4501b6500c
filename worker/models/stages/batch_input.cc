#include "worker/models/stages/batch_input.h"

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/text/counted.h"

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

absl::StatusOr<MicroBatchInput> BatchInput::FeaturesOf(const Batch& batch) {
  if (batch.samples < 0 || batch.samples > max_samples_) {
    return absl::InvalidArgumentError(
        absl::StrCat("the batch has ", Counted(batch.samples, "sample"),
                     "; the model is ", "planned for up to ", max_samples_));
  }
  MicroBatchInput micro_batch;
  micro_batch.samples = batch.samples;
  const int64_t vectors = graph_.vector_elements();
  const int64_t input_elements = graph_.values()[0] - vectors;
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
  if (vectors > 0) {
    TRIBUTARY_RETURN_IF_ERROR(CheckSize(
        "elements of vectors", batch.vectors.size(), batch.samples, vectors));
    micro_batch.vectors = batch.vectors.data();
  }
  return micro_batch;
}

absl::StatusOr<MicroBatchInput> BatchInput::InputOf(const Batch& batch) {
  TRIBUTARY_ASSIGN_OR_RETURN(MicroBatchInput micro_batch, FeaturesOf(batch));
  const LossSpec& loss = graph_.loss();
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

absl::Status BatchInput::PackSequences(const Batch& batch) {
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

}  // namespace tributary
