// The names of special tokens, and errors that all tokenizers share.
#ifndef TRIBUTARY_COMMON_TOKENIZER_SPECIAL_TOKENS_H_
#define TRIBUTARY_COMMON_TOKENIZER_SPECIAL_TOKENS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/tokenizer/tokenizer.h"

namespace tributary {

// Returns the names that vocabularies use for the token.
std::vector<absl::string_view> SpecialTokenNames(SpecialToken token);

// Returns true if `name` is one of the names that SpecialTokenNames returns.
bool IsSpecialTokenName(absl::string_view name);

// Returns InvalidArgument if the text is longer than 2^31 - 1 bytes, which
// indexes of 32 bits can count.
absl::Status CheckTextLength(absl::string_view text);

// Returns the error that no token has this id.
absl::Status NoSuchToken(int32_t id, int64_t vocabulary);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TOKENIZER_SPECIAL_TOKENS_H_
