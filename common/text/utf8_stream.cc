#include "common/text/utf8_stream.h"

#include <cstddef>

#include "absl/strings/str_cat.h"

namespace tributary {
namespace {

constexpr char kReplacement[] = "\xEF\xBF\xBD";  // U+FFFD

// Returns the length of the sequences that begin with `lead`; 0 if none do.
size_t LengthOf(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if (lead >= 0xE0 && lead <= 0xEF) return 3;
  return lead >= 0xF0 && lead <= 0xF4 ? 4 : 0;
}

// Returns true if `byte` can be at position `i`, at least 1, of a sequence that
// begins with `lead`. Excludes encodings that are too long, surrogates, and
// numbers above U+10FFFF.
bool Continues(unsigned char lead, size_t i, unsigned char byte) {
  unsigned char low = 0x80, high = 0xBF;
  if (i == 1) {
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  }
  return byte >= low && byte <= high;
}

}  // namespace

std::string Utf8Stream::Add(absl::string_view bytes) {
  absl::StrAppend(&pending_, bytes);
  return Take(/*at_end=*/false);
}

std::string Utf8Stream::Finish() { return Take(/*at_end=*/true); }

std::string Utf8Stream::Take(bool at_end) {
  std::string text;
  absl::string_view rest = pending_;
  while (!rest.empty()) {
    const auto byte = [&](size_t i) {
      return static_cast<unsigned char>(rest[i]);
    };
    const size_t length = LengthOf(byte(0));
    size_t valid = 1;
    while (valid < length && valid < rest.size() &&
           Continues(byte(0), valid, byte(valid))) {
      ++valid;
    }
    const bool whole = valid == length;
    if (!whole && valid < length && valid == rest.size() && !at_end) break;
    if (whole || !replace_invalid_) {
      absl::StrAppend(&text, rest.substr(0, valid));
    } else {
      absl::StrAppend(&text, kReplacement);
    }
    rest.remove_prefix(valid);
  }
  pending_ = std::string(rest);
  return text;
}

}  // namespace tributary
