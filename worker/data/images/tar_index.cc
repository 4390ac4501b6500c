#include "worker/data/images/tar_index.h"

#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "worker/data/files/file_magic.h"

namespace tributary {
namespace {

constexpr int64_t kBlock = 512;
// Largest extended header: names are far shorter.
constexpr int64_t kMaxExtended = 1 << 20;

absl::Status WrongTar(absl::string_view name, int64_t offset,
                      absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": byte ", offset, ": ", what));
}

// Returns the text of a field, up to its first zero byte.
absl::string_view Text(absl::string_view header, size_t offset, size_t length) {
  const absl::string_view field = header.substr(offset, length);
  return field.substr(0, field.find('\0'));
}

// Reads a number in octal digits, or in base 256 if the first bit is set.
// Returns -1 if it is malformed.
int64_t Number(absl::string_view field) {
  int64_t value = 0;
  if ((static_cast<unsigned char>(field[0]) & 0x80) != 0) {
    if (static_cast<unsigned char>(field[0]) != 0x80) return -1;
    for (const char byte : field.substr(1)) {
      if (value > (std::numeric_limits<int64_t>::max() >> 8)) return -1;
      value = value << 8 | static_cast<unsigned char>(byte);
    }
    return value;
  }
  while (!field.empty() && field[0] == ' ') field.remove_prefix(1);
  size_t digits = 0;
  for (; digits < field.size() && field[digits] >= '0' && field[digits] <= '7';
       ++digits) {
    value = value * 8 + (field[digits] - '0');
  }
  const bool ends =
      digits == field.size() || field[digits] == ' ' || field[digits] == '\0';
  return ends ? value : -1;
}

bool ChecksumFits(absl::string_view header) {
  int64_t sum = 0;
  for (size_t i = 0; i < header.size(); ++i) {
    const bool in_checksum = i >= 148 && i < 156;
    sum += in_checksum ? ' ' : static_cast<unsigned char>(header[i]);
  }
  return Number(header.substr(148, 8)) == sum;
}

// What extended headers say about the next member.
struct Extended {
  std::string name;
  int64_t size = -1;
};

// Parses pax records: "LENGTH KEY=VALUE\n".
bool ParsePax(absl::string_view records, Extended* extended) {
  while (!records.empty() && records[0] != '\0') {
    const size_t blank = records.find(' ');
    int64_t length = 0;
    if (blank == absl::string_view::npos ||
        !absl::SimpleAtoi(records.substr(0, blank), &length) ||
        length <= static_cast<int64_t>(blank) + 1 ||
        length > static_cast<int64_t>(records.size())) {
      return false;
    }
    absl::string_view record =
        records.substr(blank + 1, static_cast<size_t>(length) - blank - 1);
    records.remove_prefix(static_cast<size_t>(length));
    if (!absl::ConsumeSuffix(&record, "\n")) return false;
    if (absl::ConsumePrefix(&record, "path=")) {
      extended->name = std::string(record);
    } else if (absl::ConsumePrefix(&record, "size=")) {
      if (!absl::SimpleAtoi(record, &extended->size) || extended->size < 0) {
        return false;
      }
    }
  }
  return true;
}

std::string NameOf(absl::string_view header) {
  const absl::string_view name = Text(header, 0, 100);
  const absl::string_view prefix = Text(header, 345, 155);
  // GNU's format, whose magic is "ustar  ", uses these bytes otherwise.
  const bool posix = header.substr(257, 6) == absl::string_view("ustar\0", 6);
  if (!posix || prefix.empty()) return std::string(name);
  return absl::StrCat(prefix, "/", name);
}

}  // namespace

absl::StatusOr<std::vector<TarMember>> IndexTar(const TarReader& read,
                                                int64_t size,
                                                absl::string_view name) {
  std::vector<TarMember> members;
  Extended extended;
  std::string header;
  int64_t offset = 0;
  while (offset <= size - kBlock) {
    TRIBUTARY_RETURN_IF_ERROR(read(offset, kBlock, &header));
    if (header.find_first_not_of('\0') == std::string::npos) return members;
    if (!ChecksumFits(header)) {
      if (offset == 0 && absl::StartsWith(header, kGzipMagic)) {
        return WrongTar(name, 0,
                        "the archive is compressed; decompress it with gunzip, "
                        "because its pictures are read at any offset");
      }
      return WrongTar(name, offset, "expected the header of a tar member");
    }
    int64_t length = Number(absl::string_view(header).substr(124, 12));
    const char type = header[156];
    const bool extension =
        type == 'x' || type == 'g' || type == 'L' || type == 'K';
    if (!extension && extended.size >= 0) length = extended.size;
    const int64_t contents = offset + kBlock;
    if (length < 0 || length > size - contents) {
      return WrongTar(
          name, offset,
          "the archive ends within this member, or the member's size "
          "is malformed");
    }
    if (extension) {
      if (length > kMaxExtended) {
        return WrongTar(name, offset, "the extended header is too long");
      }
      std::string text;
      TRIBUTARY_RETURN_IF_ERROR(read(contents, length, &text));
      if (type == 'L') extended.name = text.substr(0, text.find('\0'));
      if (type == 'x' && !ParsePax(text, &extended)) {
        return WrongTar(name, offset, "the extended (pax) header is malformed");
      }
    } else {
      if (type == '0' || type == '\0' || type == '7') {
        members.push_back(
            {extended.name.empty() ? NameOf(header) : std::move(extended.name),
             contents, length});
      }
      extended = Extended();
    }
    // Ends the loop instead of overflowing if the last block is incomplete.
    offset = contents + (length + kBlock - 1) / kBlock * kBlock;
  }
  if (offset < size) {
    return WrongTar(name, offset, "the archive ends within a header");
  }
  return members;
}

}  // namespace tributary
