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

// Cuts the rectangle `from`, which must lie inside the picture, out of the
// picture, and scales it to height x width pixels.
//
// The result is bit-identical to that of Pillow's Image.resize with BILINEAR,
// which torchvision uses: a separable triangle filter, which is widened when
// the picture shrinks, with weights of 22 fractional bits. The filter runs
// first along rows and then along columns, and rounds to 8 bits after each
// pass. An axis whose size stays the same is copied.
Picture CropAndResize(const Picture& picture, const PictureRectangle& from,
                      int64_t height, int64_t width);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_IMAGES_RESIZE_H_
