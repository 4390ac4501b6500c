// The first bytes of files: magic numbers of other formats, so that errors can
// name the format of a file.
#ifndef TRIBUTARY_WORKER_DATA_FILES_FILE_MAGIC_H_
#define TRIBUTARY_WORKER_DATA_FILES_FILE_MAGIC_H_

#include <cstddef>

#include "absl/strings/string_view.h"

namespace tributary {

inline constexpr absl::string_view kGzipMagic = "\x1f\x8b";
// Start of an array file that numpy.save has written.
inline constexpr absl::string_view kNpyMagic = "\x93NUMPY";
// Start of a ZIP archive, including .npz and .xlsx files.
inline constexpr absl::string_view kZipMagic = "PK\x03\x04";
// Start of a text file in little-endian UTF-16, as Windows writes it: a byte
// order mark.
inline constexpr absl::string_view kUtf16Magic = "\xff\xfe";

// May precede text in UTF-8, and is skipped.
inline constexpr absl::string_view kByteOrderMark = "\xef\xbb\xbf";

// A zero byte within this prefix indicates a binary file, as in Git.
inline constexpr size_t kSniffedBytes = 8000;

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_FILES_FILE_MAGIC_H_
