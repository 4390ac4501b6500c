// The IDX format of MNIST: a big-endian header, then one byte for each value.
//
//   offset 0  4 bytes  magic number: 0x00000803 images, 0x00000801 labels
//   offset 4  4 bytes  count of images or labels
//   offset 8  4 bytes  height   (images only)
//   offset 12 4 bytes  width    (images only)
//   then      count * height * width pixels, or count labels
//
// (http://yann.lecun.com/exdb/mnist). The functions here are pure: bytes in,
// values or InvalidArgument out, safe for any bytes. Messages start with
// `name`, the name of the file, and the byte offset.
#ifndef TRIBUTARY_WORKER_DATA_IDX_FORMAT_H_
#define TRIBUTARY_WORKER_DATA_IDX_FORMAT_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tributary {

// Larger images are refused.
inline constexpr int64_t kMaxImagePixels = int64_t{64} << 20;

enum class IdxKind { kImages, kLabels };

struct IdxHeader {
  int64_t count = 0;   // At least 1.
  int64_t height = 1;  // Of an image; at least 1.
  int64_t width = 1;

  // Of the whole file; at most kMaxDataBytes.
  int64_t file_bytes = 0;
};

// Bytes before the values.
int64_t IdxHeaderBytes(IdxKind kind);

// Checks and reads the header at the begin of `bytes`.
absl::StatusOr<IdxHeader> ParseIdxHeader(IdxKind kind, absl::string_view bytes,
                                         absl::string_view name);

struct IdxImages {
  int64_t count = 0;
  int64_t height = 0;
  int64_t width = 0;
  // [count, height, width], one byte each; views the parsed bytes.
  absl::string_view pixels;
};

// `bytes` is the whole file; its length must be just what the header says.
absl::StatusOr<IdxImages> ParseIdxImages(absl::string_view bytes,
                                         absl::string_view name);

// `bytes` is the whole file. Returns the labels, [count], one byte each,
// viewing `bytes`; all are below `classes`.
absl::StatusOr<absl::string_view> ParseIdxLabels(absl::string_view bytes,
                                                 int64_t classes,
                                                 absl::string_view name);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_IDX_FORMAT_H_
