#include "worker/data/masked_data_set.h"

#include <algorithm>
#include <utility>

#include "common/base/status_macros.h"
#include "worker/data/text/text_encoding.h"
#include "worker/data/text/text_tokens.h"

namespace tributary {
namespace {

constexpr int64_t kExtraTokens = 2;  // [CLS] and [SEP].

}  // namespace

absl::StatusOr<std::unique_ptr<MaskedDataSet>> MaskedDataSet::Create(
    TokenData data, const TextModel& model, const Options& options) {
  TRIBUTARY_RETURN_IF_ERROR(CheckVocabulary(data.tokenizer->vocabulary(),
                                            data.tokenizer_field, model));
  TokenMasking::Options masking;
  masking.seed = options.seed;
  masking.probability = options.mask_probability;
  masking.vocabulary = data.tokenizer->vocabulary();
  TRIBUTARY_ASSIGN_OR_RETURN(
      masking.special, FindSequenceTokens(*data.tokenizer, data.tokenizer_field,
                                          /*needs_mask=*/true));
  TextEncoding encoding;
  TRIBUTARY_ASSIGN_OR_RETURN(
      encoding.tokenizer_json,
      WordPieceJson(*data.tokenizer, data.tokenizer_field));
  TokenWindows::Options layout;
  layout.extra_tokens = kExtraTokens;
  layout.predicts_next = false;
  layout.seed = options.seed;
  TRIBUTARY_ASSIGN_OR_RETURN(const TokenWindows windows,
                             TokenWindows::Create(data, model, layout));
  return std::unique_ptr<MaskedDataSet>(new MaskedDataSet(
      std::move(data), model, windows, masking, encoding.ToJson()));
}

MaskedDataSet::MaskedDataSet(TokenData data, const TextModel& model,
                             const TokenWindows& windows,
                             const TokenMasking::Options& masking,
                             std::string encoding)
    : data_(std::move(data)),
      windows_(windows),
      special_(masking.special),
      masking_(masking),
      encoding_(std::move(encoding)) {
  info_.kind = DataInfo::Kind::kSequences;
  info_.sample_shape = {model.context};
  info_.vocabulary = std::max(data_.vocabulary, masking.vocabulary);
  info_.classes = info_.vocabulary;
  info_.token_types = 1;
  info_.token_labels = true;
}

void MaskedDataSet::Resize(int64_t samples, Batch* batch) const {
  const auto tokens = static_cast<size_t>(samples * info_.sample_shape[0]);
  batch->samples = samples;
  batch->tokens.assign(tokens, special_.filler());
  batch->labels.assign(tokens, kNotCounted);
  batch->token_types.assign(tokens, 0);
  batch->lengths.resize(static_cast<size_t>(samples));
  batch->features.clear();
  batch->values.clear();
}

absl::Status MaskedDataSet::CopySample(const Sample& sample, int64_t place,
                                       Batch* batch) const {
  const TokenWindows::Window window =
      sample.held_out ? windows_.Evaluation(sample.index)
                      : windows_.Train(sample.epoch, sample.index);
  const int64_t epoch =
      sample.held_out ? TokenMasking::kEvaluation : sample.epoch;
  const int64_t begin = place * info_.sample_shape[0];
  int32_t* const tokens = batch->tokens.data() + begin;
  tokens[0] = special_.classification;
  TRIBUTARY_RETURN_IF_ERROR(
      data_.tokens->Copy(window.begin, window.tokens, tokens + 1));
  masking_.Mask(epoch, sample.index,
                {tokens + 1, static_cast<size_t>(window.tokens)},
                batch->labels.data() + begin + 1);
  tokens[window.tokens + 1] = special_.separator;
  batch->lengths[static_cast<size_t>(place)] =
      static_cast<int32_t>(window.tokens + kExtraTokens);
  return absl::OkStatus();
}

}  // namespace tributary
