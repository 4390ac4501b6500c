#include "worker/data/formats/idx_format.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "common/text/counted.h"
#include "worker/data/files/data_file.h"
#include "worker/data/files/file_magic.h"

namespace tributary {
namespace {

const char* Plural(IdxKind kind) {
  return kind == IdxKind::kImages ? "images" : "labels";
}

std::string CountedOf(IdxKind kind, int64_t count) {
  return Counted(count, kind == IdxKind::kImages ? "image" : "label");
}

uint32_t BigEndian(absl::string_view bytes, int64_t offset) {
  uint32_t value = 0;
  for (const char byte : bytes.substr(static_cast<size_t>(offset), 4)) {
    value = value << 8 | static_cast<unsigned char>(byte);
  }
  return value;
}

absl::Status WrongIdx(absl::string_view name, int64_t offset,
                      absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": byte ", offset, ": ", what));
}

absl::Status CheckMagic(IdxKind kind, absl::string_view bytes,
                        absl::string_view name) {
  const uint32_t expected = kind == IdxKind::kImages ? 0x803 : 0x801;
  const uint32_t other = kind == IdxKind::kImages ? 0x801 : 0x803;
  const uint32_t magic = BigEndian(bytes, 0);
  if (magic == expected) return absl::OkStatus();
  std::string hint;
  if (absl::StartsWith(bytes, kNpyMagic)) {
    hint = absl::StrFormat(
        " (this is a NumPy array (.npy): convert it in Python with a = "
        "numpy.load(FROM).astype('uint8') and numpy.array([0x%x, *a.shape], "
        "'>i4').tobytes() + a.tobytes())",
        expected);
  } else if (magic == other) {
    hint = kind == IdxKind::kImages ? " (this file holds labels)"
                                    : " (this file holds images)";
  } else if (absl::StartsWith(bytes, kGzipMagic)) {
    hint = " (this looks like gzip data: the name should end in .gz)";
  }
  return WrongIdx(name, 0,
                  absl::StrFormat("magic number 0x%08x%s; IDX %s have 0x%08x",
                                  magic, hint, Plural(kind), expected));
}

absl::Status CheckLength(IdxKind kind, const IdxHeader& header,
                         absl::string_view bytes, absl::string_view name) {
  const int64_t size = static_cast<int64_t>(bytes.size());
  if (size < header.file_bytes) {
    return WrongIdx(
        name, size,
        absl::StrCat("the file ends; with the ", CountedOf(kind, header.count),
                     " that its header declares it would be ",
                     header.file_bytes, " bytes long"));
  }
  if (size > header.file_bytes) {
    return WrongIdx(name, header.file_bytes,
                    absl::StrCat("the file continues after the ",
                                 CountedOf(kind, header.count),
                                 " that its header declares"));
  }
  return absl::OkStatus();
}

}  // namespace

int64_t IdxHeaderBytes(IdxKind kind) {
  return kind == IdxKind::kImages ? 16 : 8;
}

absl::StatusOr<IdxHeader> ParseIdxHeader(IdxKind kind, absl::string_view bytes,
                                         absl::string_view name) {
  const int64_t size = static_cast<int64_t>(bytes.size());
  if (size == 0) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": is empty"));
  }
  if (size >= 4) TRIBUTARY_RETURN_IF_ERROR(CheckMagic(kind, bytes, name));
  if (size < IdxHeaderBytes(kind)) {
    return WrongIdx(name, size,
                    absl::StrCat("the file ends within its header of ",
                                 IdxHeaderBytes(kind), " bytes"));
  }
  IdxHeader header;
  header.count = BigEndian(bytes, 4);
  if (header.count == 0) {
    return WrongIdx(name, 4, absl::StrCat("holds no ", Plural(kind)));
  }
  if (kind == IdxKind::kImages) {
    header.height = BigEndian(bytes, 8);
    header.width = BigEndian(bytes, 12);
  }
  // Each factor is below 2^32, so neither comparison can overflow.
  if (header.height == 0 || header.width == 0 ||
      header.height > kMaxImagePixels / header.width) {
    return WrongIdx(
        name, 8,
        absl::StrFormat("images of %d x %d pixels; they must have 1 "
                        "to %d",
                        header.height, header.width, kMaxImagePixels));
  }
  const int64_t sample_bytes = header.height * header.width;
  if (header.count > kMaxDataBytes / sample_bytes) {
    return WrongIdx(
        name, 4,
        absl::StrFormat("%d %s of %d bytes are more than %d bytes, the most "
                        "that is read",
                        header.count, Plural(kind), sample_bytes,
                        kMaxDataBytes));
  }
  header.file_bytes = IdxHeaderBytes(kind) + header.count * sample_bytes;
  return header;
}

absl::StatusOr<IdxImages> ParseIdxImages(absl::string_view bytes,
                                         absl::string_view name) {
  TRIBUTARY_ASSIGN_OR_RETURN(const IdxHeader header,
                             ParseIdxHeader(IdxKind::kImages, bytes, name));
  TRIBUTARY_RETURN_IF_ERROR(CheckLength(IdxKind::kImages, header, bytes, name));
  IdxImages images;
  images.count = header.count;
  images.height = header.height;
  images.width = header.width;
  images.pixels =
      bytes.substr(static_cast<size_t>(IdxHeaderBytes(IdxKind::kImages)));
  return images;
}

absl::StatusOr<absl::string_view> ParseIdxLabels(absl::string_view bytes,
                                                 int64_t classes,
                                                 absl::string_view name) {
  TRIBUTARY_ASSIGN_OR_RETURN(const IdxHeader header,
                             ParseIdxHeader(IdxKind::kLabels, bytes, name));
  TRIBUTARY_RETURN_IF_ERROR(CheckLength(IdxKind::kLabels, header, bytes, name));
  const int64_t start = IdxHeaderBytes(IdxKind::kLabels);
  const absl::string_view labels = bytes.substr(static_cast<size_t>(start));
  for (size_t i = 0; i < labels.size(); ++i) {
    const int label = static_cast<unsigned char>(labels[i]);
    if (label >= classes) {
      return WrongIdx(
          name, start + static_cast<int64_t>(i),
          absl::StrCat("label ", label, "; data.idx.classes: labels are below ",
                       classes));
    }
  }
  return labels;
}

}  // namespace tributary
