#include "worker/data/token_data_set.h"

#include <algorithm>
#include <utility>

#include "common/base/status_macros.h"
#include "worker/data/text/text_tokens.h"

namespace tributary {

absl::StatusOr<std::unique_ptr<TokenDataSet>> TokenDataSet::Create(
    TokenData data, const TextModel& model, uint64_t seed) {
  TRIBUTARY_RETURN_IF_ERROR(
      CheckVocabulary(data.vocabulary, data.tokenizer_field, model));
  TokenWindows::Options options;
  options.seed = seed;
  TRIBUTARY_ASSIGN_OR_RETURN(const TokenWindows windows,
                             TokenWindows::Create(data, model, options));
  return std::unique_ptr<TokenDataSet>(
      new TokenDataSet(std::move(data), model, windows));
}

TokenDataSet::TokenDataSet(TokenData data, const TextModel& model,
                           const TokenWindows& windows)
    : data_(std::move(data)), windows_(windows) {
  info_.kind = DataInfo::Kind::kTokens;
  info_.sample_shape = {model.context};
  info_.classes = data_.vocabulary;
}

void TokenDataSet::Resize(int64_t samples, Batch* batch) const {
  const int64_t tokens = samples * info_.sample_shape[0];
  batch->samples = samples;
  batch->tokens.resize(static_cast<size_t>(tokens));
  batch->labels.resize(static_cast<size_t>(tokens));
  batch->features.clear();
  batch->values.clear();
}

absl::Status TokenDataSet::CopySample(const Sample& sample, int64_t place,
                                      Batch* batch) const {
  const TokenWindows::Window window =
      sample.held_out ? windows_.Evaluation(sample.index)
                      : windows_.Train(sample.epoch, sample.index);
  const int64_t context = info_.sample_shape[0];
  const int64_t count = window.tokens;
  int32_t* tokens = batch->tokens.data() + place * context;
  int32_t* labels = batch->labels.data() + place * context;
  TRIBUTARY_RETURN_IF_ERROR(data_.tokens->Copy(window.begin, count, tokens));
  std::copy(tokens + 1, tokens + count, labels);
  TRIBUTARY_RETURN_IF_ERROR(
      data_.tokens->Copy(window.begin + count, 1, labels + count - 1));
  std::fill(tokens + count, tokens + context, 0);
  std::fill(labels + count, labels + context, kNotCounted);
  return absl::OkStatus();
}

}  // namespace tributary
