// A decoded picture.
#ifndef TRIBUTARY_WORKER_DATA_IMAGES_PICTURE_H_
#define TRIBUTARY_WORKER_DATA_IMAGES_PICTURE_H_

#include <cstdint>
#include <vector>

namespace tributary {

// Maximum number of pixels of a picture. A decoder checks it before it
// allocates memory for the pixels.
inline constexpr int64_t kMaxPicturePixels = int64_t{64} << 20;

// Eight-bit pixels, [height, width, channels], row-major.
struct Picture {
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;  // 3: red, green and blue. 1: gray.
  std::vector<uint8_t> pixels;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_IMAGES_PICTURE_H_
