// The names of special tokens, and errors that all tokenizers share.
#ifndef TRIBUTARY_COMMON_TOKENIZER_SPECIAL_TOKENS_H_
#define TRIBUTARY_COMMON_TOKENIZER_SPECIAL_TOKENS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/tokenizer/tokenizer.h"

namespace tributary {

// Returns the names that vocabularies use for `token`, such as "[UNK]" and
// "<unk>" for kUnknown.
std::vector<absl::string_view> SpecialTokenNames(SpecialToken token);

// Returns true if SpecialTokenNames returns `name` for any special token.
bool IsSpecialTokenName(absl::string_view name);

// Returns InvalidArgument if `text` is longer than 2^31 - 1 bytes, the largest
// offset that tokenizers support. Otherwise returns OK.
absl::Status CheckTextLength(absl::string_view text);

// Returns the InvalidArgument error for an id that no token has. `vocabulary`
// is the number of ids.
absl::Status NoSuchToken(int32_t id, int64_t vocabulary);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TOKENIZER_SPECIAL_TOKENS_H_
