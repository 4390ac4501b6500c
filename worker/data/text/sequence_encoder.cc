#include "worker/data/text/sequence_encoder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/data/text/text_tokens.h"

namespace tributary {
namespace {

// Shortens two lengths so that their sum is at most `most`, as `truncate` of
// Hugging Face's tokenizers does.
void Truncate(size_t most, size_t* first, size_t* second) {
  if (*first + *second <= most) return;
  size_t* const shorter = *first > *second ? second : first;
  size_t* const longer = shorter == first ? second : first;
  if (*shorter > most) {
    *longer = *shorter;
  } else {
    *longer = std::max(*shorter, most - *shorter);
  }
  if (*shorter + *longer <= most) return;
  *shorter = most / 2;
  *longer = *shorter + most % 2;
}

}  // namespace

int32_t Sequences::Copy(int64_t index, int64_t context, int32_t filler,
                        int32_t* to, int32_t* types) const {
  const int64_t begin = index == 0 ? 0 : samples[index - 1].end;
  const int64_t length = samples[index].end - begin;
  std::copy_n(tokens.begin() + begin, length, to);
  std::fill(to + length, to + context, filler);
  std::fill_n(types, context, 0);
  std::fill(types + samples[index].first_type, types + length, 1);
  return static_cast<int32_t>(length);
}

absl::StatusOr<SequenceEncoder> SequenceEncoder::Create(
    std::unique_ptr<Tokenizer> tokenizer, const std::string& field,
    const TextModel& model, bool pairs) {
  const int64_t least = pairs ? 5 : 3;
  if (model.context < least) {
    return absl::InvalidArgumentError(absl::StrCat(
        model.field, ".context: ", model.context, "; must be at least ", least,
        ", for the special tokens and one of ",
        pairs ? "each text" : "the text"));
  }
  TRIBUTARY_RETURN_IF_ERROR(
      CheckVocabulary(tokenizer->vocabulary(), field, model));
  SequenceEncoder encoder;
  TRIBUTARY_ASSIGN_OR_RETURN(
      encoder.special_,
      FindSequenceTokens(*tokenizer, field, /*needs_mask=*/false));
  encoder.tokenizer_ = std::move(tokenizer);
  encoder.context_ = model.context;
  encoder.pairs_ = pairs;
  return encoder;
}

absl::Status SequenceEncoder::Append(const LabeledTexts& texts, size_t row,
                                     Sequences* sequences) const {
  TRIBUTARY_ASSIGN_OR_RETURN(const std::vector<int32_t> first,
                             tokenizer_->Encode(texts.texts[row]));
  std::vector<int32_t> second;
  if (pairs_) {
    TRIBUTARY_ASSIGN_OR_RETURN(second, tokenizer_->Encode(texts.seconds[row]));
  }
  size_t first_size = first.size();
  size_t second_size = second.size();
  Truncate(static_cast<size_t>(context_ - (pairs_ ? 3 : 2)), &first_size,
           &second_size);
  std::vector<int32_t>& tokens = sequences->tokens;
  tokens.push_back(special_.classification);
  tokens.insert(tokens.end(), first.begin(), first.begin() + first_size);
  tokens.push_back(special_.separator);
  if (pairs_) {
    tokens.insert(tokens.end(), second.begin(), second.begin() + second_size);
    tokens.push_back(special_.separator);
  }
  sequences->samples.push_back({static_cast<int64_t>(tokens.size()),
                                static_cast<int32_t>(first_size + 2)});
  return absl::OkStatus();
}

absl::StatusOr<Sequences> SequenceEncoder::Encode(
    const LabeledTexts& texts) const {
  Sequences sequences;
  for (size_t row = 0; row < texts.texts.size(); ++row) {
    const absl::Status status = Append(texts, row, &sequences);
    if (status.ok()) continue;
    return absl::Status(status.code(),
                        absl::StrCat(texts.path, ":", texts.lines[row], ": ",
                                     status.message()));
  }
  return sequences;
}

}  // namespace tributary
