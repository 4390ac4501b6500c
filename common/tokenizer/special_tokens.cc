#include "common/tokenizer/special_tokens.h"

#include <limits>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"

namespace tributary {

std::vector<absl::string_view> SpecialTokenNames(SpecialToken token) {
  switch (token) {
    case SpecialToken::kUnknown:
      return {"[UNK]", "<unk>"};
    case SpecialToken::kPadding:
      return {"[PAD]", "<pad>"};
    case SpecialToken::kClassification:
      return {"[CLS]"};
    case SpecialToken::kSeparator:
      return {"[SEP]"};
    case SpecialToken::kMask:
      return {"[MASK]", "<mask>"};
    case SpecialToken::kEndOfText:
      return {"<|endoftext|>"};
  }
  return {};
}

bool IsSpecialTokenName(absl::string_view name) {
  for (const SpecialToken token :
       {SpecialToken::kUnknown, SpecialToken::kPadding,
        SpecialToken::kClassification, SpecialToken::kSeparator,
        SpecialToken::kMask, SpecialToken::kEndOfText}) {
    if (absl::c_linear_search(SpecialTokenNames(token), name)) return true;
  }
  return false;
}

absl::Status CheckTextLength(absl::string_view text) {
  constexpr size_t kMax = std::numeric_limits<int32_t>::max();
  if (text.size() <= kMax) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the text has ", text.size(),
                                                 " bytes; at most ", kMax,
                                                 " can be tokenized at once"));
}

absl::Status NoSuchToken(int32_t id, int64_t vocabulary) {
  return absl::InvalidArgumentError(absl::StrCat(
      "no token has the id ", id, "; ids are from 0 to ", vocabulary - 1));
}

}  // namespace tributary
