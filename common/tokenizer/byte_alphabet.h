// Vocabulary files of byte-level BPE (byte-pair encoding) represent each byte
// by a printable character. This file converts them back to bytes.
#ifndef TRIBUTARY_COMMON_TOKENIZER_BYTE_ALPHABET_H_
#define TRIBUTARY_COMMON_TOKENIZER_BYTE_ALPHABET_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace tributary {

// Returns the bytes that the characters of `token` represent, or nullopt if one
// of the characters represents no byte. The bytes 33 to 126, 161 to 172 and 174
// to 255 are represented by the characters with the same code points. All other
// bytes, in ascending order, are represented by the characters from U+0100 on.
absl::optional<std::string> BytesOfToken(absl::string_view token);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TOKENIZER_BYTE_ALPHABET_H_
