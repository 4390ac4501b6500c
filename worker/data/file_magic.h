// The first bytes by which files of other formats are recognized, so that an
// error can name what the file is.
#ifndef TRIBUTARY_WORKER_DATA_FILE_MAGIC_H_
#define TRIBUTARY_WORKER_DATA_FILE_MAGIC_H_

#include "absl/strings/string_view.h"

namespace tributary {

inline constexpr absl::string_view kGzipMagic = "\x1f\x8b";
// An array saved by numpy.save.
inline constexpr absl::string_view kNpyMagic = "\x93NUMPY";
// Also .npz and .xlsx.
inline constexpr absl::string_view kZipMagic = "PK\x03\x04";
// A byte order mark, little-endian as Windows writes it.
inline constexpr absl::string_view kUtf16Magic = "\xff\xfe";

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_FILE_MAGIC_H_
