// Decoder of PNG files.
#ifndef TRIBUTARY_WORKER_DATA_IMAGES_PNG_DECODER_H_
#define TRIBUTARY_WORKER_DATA_IMAGES_PNG_DECODER_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/data/images/picture.h"

namespace tributary {

// Decodes a PNG file, interlaced or not. Gray files have one channel; files
// with colors or a palette have three. Of 16-bit samples, the upper 8 bits are
// used; samples of 1, 2 and 4 bits are scaled to 8. Transparency and gamma are
// ignored.
//
// Returns InvalidArgument for damaged or truncated data, and for pictures of
// more than kMaxPicturePixels. Thread-safe.
absl::StatusOr<Picture> DecodePng(absl::string_view bytes);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_IMAGES_PNG_DECODER_H_
