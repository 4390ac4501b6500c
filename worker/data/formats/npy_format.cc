#include "worker/data/formats/npy_format.h"

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "worker/data/files/file_magic.h"

namespace tributary {
namespace {

template <typename... What>
absl::Status WrongNpy(absl::string_view name, const What&... what) {
  return absl::InvalidArgumentError(absl::StrCat(name, ": ", what...));
}

// Returns the text after `key` in the header, which is a Python dictionary.
absl::string_view After(absl::string_view header, absl::string_view key) {
  size_t at = header.find(absl::StrCat("'", key, "'"));
  if (at == absl::string_view::npos) return {};
  at = header.find(':', at);
  if (at == absl::string_view::npos) return {};
  return absl::StripAsciiWhitespace(header.substr(at + 1));
}

void SetInteger(NpyHeader* header) {
  const std::string& type = header->type;
  if (type.size() != 3 || (type[1] != 'u' && type[1] != 'i')) return;
  const int64_t bytes = type[2] - '0';
  if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8) return;
  if (type[0] != '<' && type[0] != '|' && bytes > 1) return;
  header->integer_bytes = bytes;
  header->is_signed = type[1] == 'i';
}

}  // namespace

absl::StatusOr<NpyHeader> ParseNpyHeader(absl::string_view start,
                                         absl::string_view name) {
  if (!absl::StartsWith(start, kNpyMagic) || start.size() < 12) {
    return WrongNpy(name, "is not a NumPy array (.npy)");
  }
  const auto byte = [&start](size_t at) {
    return static_cast<int64_t>(static_cast<unsigned char>(start[at]));
  };
  const int64_t version = byte(6);
  if (version < 1 || version > 3) {
    return WrongNpy(name, "has version ", version,
                    " of the format; expected 1, 2 or 3");
  }
  NpyHeader header;
  header.bytes = 10;
  int64_t length = byte(8) | byte(9) << 8;
  if (version > 1) {
    header.bytes = 12;
    length |= byte(10) << 16 | byte(11) << 24;
  }
  if (length > static_cast<int64_t>(start.size()) - header.bytes) {
    return WrongNpy(name, "ends within its header");
  }
  const absl::string_view text = start.substr(static_cast<size_t>(header.bytes),
                                              static_cast<size_t>(length));
  header.bytes += length;
  const absl::string_view type = After(text, "descr");
  const size_t type_end = type.size() > 1 ? type.find('\'', 1) : type.npos;
  if (type.empty() || type[0] != '\'' || type_end == type.npos) {
    return WrongNpy(name, "its header has no simple 'descr'");
  }
  header.type = std::string(type.substr(1, type_end - 1));
  SetInteger(&header);
  if (!absl::StartsWith(After(text, "fortran_order"), "False")) {
    return WrongNpy(name,
                    "is in Fortran order; save numpy.ascontiguousarray(array)");
  }
  const absl::string_view shape = After(text, "shape");
  const size_t shape_end = shape.find(')');
  if (shape.empty() || shape[0] != '(' || shape_end == shape.npos) {
    return WrongNpy(name, "its header has no 'shape'");
  }
  for (const absl::string_view size :
       absl::StrSplit(shape.substr(1, shape_end - 1), ',')) {
    if (absl::StripAsciiWhitespace(size).empty()) continue;
    int64_t number = 0;
    if (!absl::SimpleAtoi(size, &number) || number < 0) {
      return WrongNpy(name, "its 'shape' is malformed");
    }
    header.shape.push_back(number);
  }
  return header;
}

}  // namespace tributary
