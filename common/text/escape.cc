#include "common/text/escape.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tributary {
namespace {

// Returns the length of the UTF-8 sequence at the start of `text`; 0 if it is
// invalid or a C1 control character (U+0080 to U+009F).
size_t Utf8Length(absl::string_view text) {
  const auto byte = [&](size_t i) {
    return static_cast<unsigned char>(text[i]);
  };
  const unsigned char first = byte(0);
  size_t length = 0;
  uint32_t smallest = 0;
  uint32_t code = 0;
  if (first >= 0xC2 && first <= 0xDF) {
    length = 2, smallest = 0xA0, code = first & 0x1F;
  } else if (first >= 0xE0 && first <= 0xEF) {
    length = 3, smallest = 0x800, code = first & 0x0F;
  } else if (first >= 0xF0 && first <= 0xF4) {
    length = 4, smallest = 0x10000, code = first & 0x07;
  }
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3F);
  }
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  return code < smallest || code > 0x10FFFF || surrogate ? 0 : length;
}

}  // namespace

std::string EscapeForTerminal(absl::string_view text) {
  std::string escaped;
  while (!text.empty()) {
    const unsigned char c = text[0];
    const bool plain = (c >= 0x20 && c < 0x7F) || c == '\n' || c == '\t';
    const size_t length = plain ? 1 : Utf8Length(text);
    if (length > 0) {
      absl::StrAppend(&escaped, text.substr(0, length));
      text.remove_prefix(length);
    } else {
      absl::StrAppendFormat(&escaped, "\\x%02x", c);
      text.remove_prefix(1);
    }
  }
  return escaped;
}

}  // namespace tributary
