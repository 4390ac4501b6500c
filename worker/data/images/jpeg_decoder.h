// Decoder of JPEG files.
#ifndef TRIBUTARY_WORKER_DATA_IMAGES_JPEG_DECODER_H_
#define TRIBUTARY_WORKER_DATA_IMAGES_JPEG_DECODER_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/data/images/picture.h"

namespace tributary {

// Decodes a JPEG file with libjpeg-turbo's accurate integer transform and its
// smooth ("fancy") upsampling, which are Pillow's settings: the pixels are the
// same on every machine. Gray files have one channel, all others three. The
// orientation in EXIF data is ignored, as by Pillow's Image.open.
//
// Returns InvalidArgument for damaged or truncated data (superfluous bytes are
// the only defect that is accepted), for CMYK pictures, and for pictures of
// more than kMaxPicturePixels. Thread-safe.
absl::StatusOr<Picture> DecodeJpeg(absl::string_view bytes);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_IMAGES_JPEG_DECODER_H_
