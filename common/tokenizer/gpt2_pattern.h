// The pattern with which the tokenizer of GPT-2 divides a text into words.
#ifndef TRIBUTARY_COMMON_TOKENIZER_GPT2_PATTERN_H_
#define TRIBUTARY_COMMON_TOKENIZER_GPT2_PATTERN_H_

#include <cstddef>

#include "absl/strings/string_view.h"

namespace tributary {

// Returns the number of bytes of the first word of `text`, which must not be
// empty. Words are the matches of
//
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// A byte that is not part of valid UTF-8 counts as a character that is neither
// a letter nor a number nor white space. Takes time proportional to the length
// of the word.
size_t Gpt2Word(absl::string_view text);

// Returns a position in `text`, at or after `from`, at which the text can be
// divided without changing the tokens: every tokenizer of common/tokenizer,
// applied to the two parts, returns the same ids as for the whole text. Returns
// text.size() if there is no such position. The position is that of a line end
// that follows a printable ASCII character: in the GPT-2 pattern, a word begins
// there, because only words of white space contain line ends, and WordPiece
// also divides words there.
size_t SafeSplit(absl::string_view text, size_t from);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TOKENIZER_GPT2_PATTERN_H_
