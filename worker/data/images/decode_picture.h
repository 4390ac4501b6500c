// Decodes pictures of every supported file type.
#ifndef TRIBUTARY_WORKER_DATA_IMAGES_DECODE_PICTURE_H_
#define TRIBUTARY_WORKER_DATA_IMAGES_DECODE_PICTURE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/data/images/picture.h"

namespace tributary {

// Decodes a JPEG or PNG file into a picture with `channels` (1 or 3) channels.
// Determines the file type from the first bytes. Returns InvalidArgument for
// other file types, and the errors of the decoders.
absl::StatusOr<Picture> DecodePicture(absl::string_view bytes,
                                      int64_t channels);

// Converts a picture to `channels` (1 or 3) channels. Gray is (19595 red +
// 38470 green + 7471 blue + 32768) / 65536, rounded down (ITU-R 601-2; Pillow's
// convert("L")).
Picture WithChannels(Picture picture, int64_t channels);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_IMAGES_DECODE_PICTURE_H_
