#include "worker/data/images/resize.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include "tests/worker/data/images/picture_test_util.h"

namespace tributary {
namespace {

// Pillow's results: no pixel differs.
TEST(ResizeTest, HasPillowsBits) {
  struct Golden {
    int64_t height, width, channels, top, left, h, w, new_height, new_width;
    uint32_t checksum;
  };
  const Golden cases[] = {
#include "tests/worker/data/images/resize_golden.inc"
  };
  for (const Golden& test : cases) {
    const Picture scaled = CropAndResize(
        MakePicture(test.height, test.width, test.channels, 5),
        {test.top, test.left, test.h, test.w}, test.new_height, test.new_width);
    EXPECT_EQ(scaled.height, test.new_height);
    EXPECT_EQ(scaled.width, test.new_width);
    EXPECT_EQ(
        crc32(0, scaled.pixels.data(), static_cast<uInt>(scaled.pixels.size())),
        test.checksum)
        << test.height << " x " << test.width << " x " << test.channels
        << " to " << test.new_height << " x " << test.new_width;
  }
}

TEST(ResizeTest, CopiesAPictureOfTheSameSize) {
  const Picture picture = MakePicture(9, 7, 3, 1);
  EXPECT_EQ(CropAndResize(picture, {0, 0, 9, 7}, 9, 7).pixels, picture.pixels);
}

}  // namespace
}  // namespace tributary
