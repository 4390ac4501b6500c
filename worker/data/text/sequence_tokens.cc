#include "worker/data/text/sequence_tokens.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tributary {

bool SequenceTokens::Contains(int32_t token) const {
  return token != kAbsent &&
         (token == classification || token == separator || token == mask ||
          token == padding || token == unknown);
}

absl::StatusOr<SequenceTokens> FindSequenceTokens(const Tokenizer& tokenizer,
                                                  const std::string& field,
                                                  bool needs_mask) {
  const auto id = [&tokenizer](SpecialToken token) {
    return tokenizer.Special(token).value_or(SequenceTokens::kAbsent);
  };
  SequenceTokens tokens;
  tokens.classification = id(SpecialToken::kClassification);
  tokens.separator = id(SpecialToken::kSeparator);
  tokens.mask = id(SpecialToken::kMask);
  tokens.padding = id(SpecialToken::kPadding);
  tokens.unknown = id(SpecialToken::kUnknown);
  const char* const missing =
      tokens.classification == SequenceTokens::kAbsent       ? "[CLS]"
      : tokens.separator == SequenceTokens::kAbsent          ? "[SEP]"
      : needs_mask && tokens.mask == SequenceTokens::kAbsent ? "[MASK]"
                                                             : nullptr;
  if (missing == nullptr) return tokens;
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": the vocabulary has no token ", missing,
                   "; model.bert needs the tokenizer of a BERT (WordPiece)"));
}

}  // namespace tributary
