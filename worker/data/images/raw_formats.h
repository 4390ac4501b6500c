// Parsers for files of uncompressed pictures: CIFAR, NumPy arrays and IDX. All
// functions are pure and accept arbitrary bytes. If the bytes are malformed,
// they return InvalidArgument with a message that begins with `name`, the name
// of the file.
#ifndef TRIBUTARY_WORKER_DATA_IMAGES_RAW_FORMATS_H_
#define TRIBUTARY_WORKER_DATA_IMAGES_RAW_FORMATS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/data/images/raw_pictures.h"

namespace tributary {

// Size of a record of CIFAR-10 (label, then 3 x 32 x 32 pixels) and CIFAR-100
// (coarse label, fine label, pixels), in bytes.
inline constexpr int64_t kCifar10Bytes = 3073;
inline constexpr int64_t kCifar100Bytes = 3074;

// Parses a binary file of CIFAR-10 or, if `fine` is true, of CIFAR-100. Of the
// labels of CIFAR-100, only the fine ones are used.
absl::StatusOr<RawLayout> ParseCifar(absl::string_view bytes, bool fine,
                                     absl::string_view name);

// Parses a NumPy array (.npy, versions 1 to 3, C order) of uint8 with shape
// [N, H, W] or [N, H, W, C], where C is 1 or 3. Does not set RawLayout::labels.
absl::StatusOr<RawLayout> ParseNpyPictures(absl::string_view bytes,
                                           absl::string_view name);

// Parses a one-dimensional NumPy array of little-endian or one-byte integers,
// none of which is negative.
absl::StatusOr<std::vector<int64_t>> ParseNpyLabels(absl::string_view bytes,
                                                    absl::string_view name);

// Parses an IDX file of unsigned bytes with three dimensions [N, H, W] or four
// [N, H, W, C], where C is 1 or 3. Does not set RawLayout::labels.
absl::StatusOr<RawLayout> ParseIdxPictures(absl::string_view bytes,
                                           absl::string_view name);

// Parses an IDX file of unsigned bytes with one dimension, and returns the
// bytes as labels.
absl::StatusOr<std::vector<int64_t>> ParseIdxPictureLabels(
    absl::string_view bytes, absl::string_view name);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_IMAGES_RAW_FORMATS_H_
