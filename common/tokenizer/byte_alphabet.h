// The characters that stand for bytes in the files of byte-level BPE.
#ifndef TRIBUTARY_COMMON_TOKENIZER_BYTE_ALPHABET_H_
#define TRIBUTARY_COMMON_TOKENIZER_BYTE_ALPHABET_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace tributary {

// Returns the bytes that the characters of `token` stand for, or nullopt if one
// of the characters stands for no byte. The bytes 33 to 126, 161 to 172 and 174
// to 255 are the characters with these code points. The other bytes, in their
// order, are the characters from U+0100.
absl::optional<std::string> BytesOfToken(absl::string_view token);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TOKENIZER_BYTE_ALPHABET_H_
