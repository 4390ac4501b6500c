// Antialiased bilinear scaling of pictures.
#ifndef TRIBUTARY_WORKER_DATA_IMAGES_RESIZE_H_
#define TRIBUTARY_WORKER_DATA_IMAGES_RESIZE_H_

#include <cstdint>

#include "worker/data/images/picture.h"

namespace tributary {

// A rectangle of a picture, in pixels.
struct PictureRectangle {
  int64_t top = 0;
  int64_t left = 0;
  int64_t height = 0;
  int64_t width = 0;
};

// Cuts `from`, which must lie inside the picture, out of it, and scales it to
// height x width pixels.
//
// The result has the bits of Pillow's Image.resize with BILINEAR, which
// torchvision uses: a separable triangle filter that is widened when it
// shrinks, with weights of 22 fractional bits, first along rows and then along
// columns, rounded to 8 bits after each pass. An axis whose size stays the same
// is copied.
Picture CropAndResize(const Picture& picture, const PictureRectangle& from,
                      int64_t height, int64_t width);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_IMAGES_RESIZE_H_
