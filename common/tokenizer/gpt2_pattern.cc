#include "common/tokenizer/gpt2_pattern.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "common/tokenizer/unicode.h"

namespace tributary {
namespace {

// Returns the end of the run of characters of this class from `begin`.
size_t RunEnd(absl::string_view text, size_t begin, CharacterClass of) {
  size_t end = begin;
  while (end < text.size()) {
    const Character next = FirstCharacter(text.substr(end));
    if (ClassOf(next.point) != of) break;
    end += next.bytes;
  }
  return end;
}

// Returns the length of the contraction at the beginning of `text`, or 0.
size_t Contraction(absl::string_view text) {
  if (text[0] != '\'') return 0;
  for (const absl::string_view ending :
       {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
    if (absl::StartsWith(text, ending)) return ending.size();
  }
  return 0;
}

// Returns the length of the word of white space at the beginning of `text`: the
// whole run at the end of the text, otherwise the run without its last
// character, which belongs to the next word, unless it is the only one.
size_t Space(absl::string_view text) {
  size_t end = 0;
  size_t last = 0;
  while (end < text.size()) {
    const Character next = FirstCharacter(text.substr(end));
    if (!IsSpace(next.point)) break;
    last = end;
    end += next.bytes;
  }
  if (end == text.size() || last == 0) return end;
  return last;
}

}  // namespace

size_t Gpt2Word(absl::string_view text) {
  if (const size_t contraction = Contraction(text)) return contraction;
  const size_t blank = text[0] == ' ' && text.size() > 1 ? 1 : 0;
  const CharacterClass of = ClassOf(FirstCharacter(text.substr(blank)).point);
  if (of == CharacterClass::kSpace) return Space(text);
  return RunEnd(text, blank, of);
}

size_t SafeSplit(absl::string_view text, size_t from) {
  for (size_t at = std::max<size_t>(from, 1); at < text.size(); ++at) {
    at = text.find('\n', at);
    if (at == absl::string_view::npos) break;
    if (text[at - 1] > ' ' && text[at - 1] < 0x7f) return at;
  }
  return text.size();
}

}  // namespace tributary
