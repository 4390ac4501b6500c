// Characters of UTF-8 text and their properties, from utf8proc.
#ifndef TRIBUTARY_COMMON_TOKENIZER_UNICODE_H_
#define TRIBUTARY_COMMON_TOKENIZER_UNICODE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace tributary {

// A character and the number of bytes that it takes in the text.
struct Character {
  // The code point, or -1 for a byte that is not part of valid UTF-8.
  int32_t point = -1;
  size_t bytes = 0;
};

// Decodes the character at the beginning of `text`, which must not be empty.
Character FirstCharacter(absl::string_view text);

// Appends the UTF-8 encoding of code point `point`, which must be valid, to
// `*text`.
void AppendCharacter(int32_t point, std::string* text);

// The classes of characters that the GPT-2 pattern distinguishes. kOther
// includes bytes that are not part of valid UTF-8.
enum class CharacterClass { kLetter, kNumber, kSpace, kOther };
CharacterClass ClassOf(int32_t point);

// Returns true for characters with Unicode's property White_Space.
bool IsSpace(int32_t point);
// Returns true for the general categories Cc, Cf, Co and Cs.
bool IsControl(int32_t point);
// Returns true for the general categories that begin with P.
bool IsPunctuation(int32_t point);
// Returns true for the general category Mn (accents).
bool IsNonspacingMark(int32_t point);

// Appends the canonical decomposition (NFD) of `text`, which must be valid
// UTF-8, to `to`.
void AppendDecomposed(absl::string_view text, std::string* to);
// Appends the lower case of code point `point`, in UTF-8, to `*text`.
void AppendLowerCase(int32_t point, std::string* text);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TOKENIZER_UNICODE_H_
