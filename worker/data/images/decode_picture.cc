#include "worker/data/images/decode_picture.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "common/base/status_macros.h"
#include "worker/data/images/jpeg_decoder.h"
#include "worker/data/images/png_decoder.h"

namespace tributary {
namespace {

constexpr absl::string_view kJpegMagic = "\xff\xd8";
constexpr absl::string_view kPngMagic = "\x89PNG\r\n\x1a\n";

absl::StatusOr<Picture> DecodeAny(absl::string_view bytes) {
  if (absl::StartsWith(bytes, kJpegMagic)) return DecodeJpeg(bytes);
  if (absl::StartsWith(bytes, kPngMagic)) return DecodePng(bytes);
  return absl::InvalidArgumentError(
      bytes.empty() ? "the file is empty; expected a JPEG or PNG file"
                    : "the file is neither a JPEG nor a PNG file");
}

}  // namespace

Picture WithChannels(Picture picture, int64_t channels) {
  if (picture.channels == channels) return picture;
  Picture converted;
  converted.height = picture.height;
  converted.width = picture.width;
  converted.channels = channels;
  const auto count = static_cast<size_t>(picture.height * picture.width);
  converted.pixels.resize(count * static_cast<size_t>(channels));
  const uint8_t* from = picture.pixels.data();
  uint8_t* to = converted.pixels.data();
  if (channels == 1) {
    for (size_t i = 0; i < count; ++i, from += 3) {
      to[i] = static_cast<uint8_t>(
          (19595u * from[0] + 38470u * from[1] + 7471u * from[2] + 0x8000u) >>
          16);
    }
  } else {
    for (size_t i = 0; i < count; ++i, to += 3) to[0] = to[1] = to[2] = from[i];
  }
  return converted;
}

absl::StatusOr<Picture> DecodePicture(absl::string_view bytes,
                                      int64_t channels) {
  TRIBUTARY_ASSIGN_OR_RETURN(Picture picture, DecodeAny(bytes));
  return WithChannels(std::move(picture), channels);
}

}  // namespace tributary
