// Parser for the IDX format of MNIST (http://yann.lecun.com/exdb/mnist): a
// big-endian header, then one byte per value.
//
//   offset 0  4 bytes  magic number: 0x00000803 images, 0x00000801 labels
//   offset 4  4 bytes  count of images or labels
//   offset 8  4 bytes  height   (images only)
//   offset 12 4 bytes  width    (images only)
//   then      count * height * width pixels, or count labels
//
// All functions are pure and accept arbitrary bytes. If the bytes are
// malformed, they return InvalidArgument with a message that starts with
// `name`, the name of the file, and the byte offset of the error.
#ifndef TRIBUTARY_WORKER_DATA_FORMATS_IDX_FORMAT_H_
#define TRIBUTARY_WORKER_DATA_FORMATS_IDX_FORMAT_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tributary {

// Maximum number of pixels in an image.
inline constexpr int64_t kMaxImagePixels = int64_t{64} << 20;

enum class IdxKind { kImages, kLabels };

struct IdxHeader {
  int64_t count = 0;   // At least 1.
  int64_t height = 1;  // At least 1; 1 for labels.
  int64_t width = 1;   // At least 1; 1 for labels.

  // Size of the whole file; at most kMaxDataBytes.
  int64_t file_bytes = 0;
};

// Returns the size of the header in bytes.
int64_t IdxHeaderBytes(IdxKind kind);

// Parses the header at the start of `bytes`. `name` is the file's name. Returns
// InvalidArgument, with `name` and the byte offset, if the header is malformed.
absl::StatusOr<IdxHeader> ParseIdxHeader(IdxKind kind, absl::string_view bytes,
                                         absl::string_view name);

struct IdxImages {
  int64_t count = 0;
  int64_t height = 0;
  int64_t width = 0;
  // The pixels, [count, height, width], one byte each. Refers to the memory
  // that was parsed, which must outlive this view.
  absl::string_view pixels;
};

// Parses `bytes`, which must be a whole file. Returns InvalidArgument, with
// `name` and the byte offset, if the file is malformed or its length differs
// from what its header states.
absl::StatusOr<IdxImages> ParseIdxImages(absl::string_view bytes,
                                         absl::string_view name);

// Parses `bytes`, which must be a whole file, and returns its labels, one byte
// each. The result refers to the memory of `bytes`. Returns InvalidArgument,
// with `name` and the byte offset, if the file is malformed or a label is not
// below `classes`.
absl::StatusOr<absl::string_view> ParseIdxLabels(absl::string_view bytes,
                                                 int64_t classes,
                                                 absl::string_view name);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_FORMATS_IDX_FORMAT_H_
