#include "worker/data/images/raw_formats.h"

#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "worker/data/formats/npy_format.h"

namespace tributary {
namespace {

constexpr int64_t kCifarSide = 32;

absl::Status WrongRaw(absl::string_view name, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(name, ": ", what));
}

// Makes the layout of `shape`, [N, H, W] or [N, H, W, C], whose pixels begin at
// byte `first` and must end with the file.
absl::StatusOr<RawLayout> LayoutOf(const std::vector<int64_t>& shape,
                                   int64_t first, int64_t file_bytes,
                                   absl::string_view name) {
  const std::string text = absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
  const bool fits = shape.size() == 3 ||
                    (shape.size() == 4 && (shape[3] == 1 || shape[3] == 3));
  if (!fits) {
    return WrongRaw(name, absl::StrCat("shape ", text,
                                       "; expected [N, height, width] or [N, "
                                       "height, width, channels] with 1 or 3 "
                                       "channels"));
  }
  RawLayout layout;
  layout.count = shape[0];
  layout.height = shape[1];
  layout.width = shape[2];
  layout.channels = shape.size() == 4 ? shape[3] : 1;
  layout.first = first;
  if (layout.count < 1 || layout.height < 1 || layout.width < 1 ||
      layout.height > kMaxPicturePixels / layout.width) {
    return WrongRaw(
        name,
        absl::StrCat("shape ", text, "; expected at least one picture of 1 to ",
                     kMaxPicturePixels, " pixels"));
  }
  layout.stride = layout.height * layout.width * layout.channels;
  const int64_t left = file_bytes - first;
  if (left % layout.stride != 0 || left / layout.stride != layout.count) {
    return WrongRaw(
        name,
        absl::StrCat("has ", left, " bytes after its header; ", "shape ", text,
                     " needs ", layout.count, " times ", layout.stride));
  }
  return layout;
}

uint32_t BigEndian(absl::string_view bytes, size_t offset) {
  uint32_t value = 0;
  for (const char byte : bytes.substr(offset, 4)) {
    value = value << 8 | static_cast<unsigned char>(byte);
  }
  return value;
}

}  // namespace

absl::StatusOr<RawLayout> ParseCifar(absl::string_view bytes, bool fine,
                                     absl::string_view name) {
  RawLayout layout;
  layout.stride = fine ? kCifar100Bytes : kCifar10Bytes;
  const auto size = static_cast<int64_t>(bytes.size());
  if (size == 0 || size % layout.stride != 0) {
    return WrongRaw(name,
                    absl::StrCat("has ", size, " bytes; a binary file of ",
                                 fine ? "CIFAR-100" : "CIFAR-10",
                                 " has a multiple of ", layout.stride));
  }
  layout.count = size / layout.stride;
  layout.height = layout.width = kCifarSide;
  layout.channels = 3;
  layout.first = fine ? 2 : 1;
  layout.planar = true;
  const int64_t classes = fine ? 100 : 10;
  for (int64_t i = 0; i < layout.count; ++i) {
    const int64_t at = i * layout.stride + layout.first - 1;
    const int64_t label =
        static_cast<unsigned char>(bytes[static_cast<size_t>(at)]);
    if (label >= classes) {
      return WrongRaw(name, absl::StrCat("byte ", at, ": label ", label,
                                         "; labels are below ", classes));
    }
    layout.labels.push_back(label);
  }
  return layout;
}

absl::StatusOr<RawLayout> ParseNpyPictures(absl::string_view bytes,
                                           absl::string_view name) {
  TRIBUTARY_ASSIGN_OR_RETURN(const NpyHeader header,
                             ParseNpyHeader(bytes, name));
  if (header.integer_bytes != 1 || header.is_signed) {
    return WrongRaw(name, absl::StrCat("holds numbers of type ",
                                       absl::CHexEscape(header.type),
                                       "; pictures must be uint8 (|u1)"));
  }
  return LayoutOf(header.shape, header.bytes,
                  static_cast<int64_t>(bytes.size()), name);
}

absl::StatusOr<std::vector<int64_t>> ParseNpyLabels(absl::string_view bytes,
                                                    absl::string_view name) {
  TRIBUTARY_ASSIGN_OR_RETURN(const NpyHeader header,
                             ParseNpyHeader(bytes, name));
  const int64_t width = header.integer_bytes;
  if (width == 0 || header.shape.size() != 1) {
    return WrongRaw(name,
                    absl::StrCat("type ", absl::CHexEscape(header.type), ", ",
                                 header.shape.size(),
                                 " dimensions; labels must be integers with "
                                 "one dimension"));
  }
  const int64_t left = static_cast<int64_t>(bytes.size()) - header.bytes;
  if (left % width != 0 || left / width != header.shape[0]) {
    return WrongRaw(name,
                    absl::StrCat("has ", left, " bytes after its header for ",
                                 header.shape[0], " labels of ", width));
  }
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < header.shape[0]; ++i) {
    uint64_t label = 0;
    for (int64_t b = width - 1; b >= 0; --b) {
      label = label << 8 |
              static_cast<unsigned char>(
                  bytes[static_cast<size_t>(header.bytes + i * width + b)]);
    }
    // A set sign bit, of a signed type, or a number of 2^31 and above.
    if (label > std::numeric_limits<int32_t>::max() ||
        (header.is_signed && (label >> (8 * width - 1)) != 0)) {
      return WrongRaw(name, absl::StrCat("label ", i,
                                         " is negative or too large; labels "
                                         "count from 0"));
    }
    labels.push_back(static_cast<int64_t>(label));
  }
  return labels;
}

absl::StatusOr<RawLayout> ParseIdxPictures(absl::string_view bytes,
                                           absl::string_view name) {
  const uint32_t magic = bytes.size() < 4 ? 0 : BigEndian(bytes, 0);
  if (magic != 0x803 && magic != 0x804) {
    return WrongRaw(name,
                    "byte 0: is not an IDX file of pictures, which begins with "
                    "0x00000803 or 0x00000804");
  }
  const size_t dimensions = magic & 0xff;
  const size_t header = 4 + 4 * dimensions;
  if (bytes.size() < header) return WrongRaw(name, "ends within its header");
  std::vector<int64_t> shape;
  for (size_t i = 0; i < dimensions; ++i) {
    shape.push_back(BigEndian(bytes, 4 + 4 * i));
  }
  return LayoutOf(shape, static_cast<int64_t>(header),
                  static_cast<int64_t>(bytes.size()), name);
}

absl::StatusOr<std::vector<int64_t>> ParseIdxPictureLabels(
    absl::string_view bytes, absl::string_view name) {
  if (bytes.size() < 8 || BigEndian(bytes, 0) != 0x801) {
    return WrongRaw(name,
                    "byte 0: is not an IDX file of labels, which begins with "
                    "0x00000801");
  }
  if (BigEndian(bytes, 4) != bytes.size() - 8) {
    return WrongRaw(name, absl::StrCat("declares ", BigEndian(bytes, 4),
                                       " labels, but has ", bytes.size() - 8));
  }
  std::vector<int64_t> labels;
  for (const char label : bytes.substr(8)) {
    labels.push_back(static_cast<unsigned char>(label));
  }
  return labels;
}

}  // namespace tributary
