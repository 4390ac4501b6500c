#include "worker/data/images/decode_picture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <png.h>

#include <string>
#include <vector>

#include "tests/worker/data/images/picture_test_util.h"

namespace tributary {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string ErrorOf(const std::string& bytes) {
  const auto picture = DecodePicture(bytes, 3);
  EXPECT_EQ(picture.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(picture.status().message());
}

TEST(DecodePictureTest, PngsGiveTheirPixelsInterlacedOrNot) {
  for (const int64_t channels : {1, 3}) {
    for (const bool interlaced : {false, true}) {
      const Picture picture = MakePicture(13, 17, channels, 3);
      const auto decoded =
          DecodePicture(EncodePng(picture, interlaced), channels);
      ASSERT_TRUE(decoded.ok()) << decoded.status();
      EXPECT_EQ(decoded->height, 13);
      EXPECT_EQ(decoded->width, 17);
      EXPECT_EQ(decoded->pixels, picture.pixels);
    }
  }
}

TEST(DecodePictureTest, UsesTheUpperBitsOf16BitPngs) {
  const auto picture =
      DecodePicture(EncodePngRows(1, 2, 16, PNG_COLOR_TYPE_GRAY,
                                  std::string("\x12\xff\x80\x00", 4)),
                    1);
  ASSERT_TRUE(picture.ok()) << picture.status();
  EXPECT_THAT(picture->pixels, ElementsAre(0x12, 0x80));
}

TEST(DecodePictureTest, ScalesGrayPngsOfFewBits) {
  const auto picture = DecodePicture(
      EncodePngRows(1, 4, 2, PNG_COLOR_TYPE_GRAY, std::string(1, 0x1b)), 1);
  ASSERT_TRUE(picture.ok()) << picture.status();
  EXPECT_THAT(picture->pixels, ElementsAre(0, 85, 170, 255));
}

TEST(DecodePictureTest, LooksUpThePaletteOfPngs) {
  const auto picture =
      DecodePicture(EncodePngRows(1, 2, 8, PNG_COLOR_TYPE_PALETTE,
                                  std::string("\x01\x00", 2), "abcdef"),
                    3);
  ASSERT_TRUE(picture.ok()) << picture.status();
  EXPECT_THAT(picture->pixels, ElementsAre('d', 'e', 'f', 'a', 'b', 'c'));
}

TEST(DecodePictureTest, IgnoresTransparencyOfPngs) {
  const auto color = DecodePicture(
      EncodePngRows(1, 1, 8, PNG_COLOR_TYPE_RGB_ALPHA, "abcd"), 3);
  ASSERT_TRUE(color.ok()) << color.status();
  EXPECT_THAT(color->pixels, ElementsAre('a', 'b', 'c'));
  const auto gray =
      DecodePicture(EncodePngRows(1, 1, 8, PNG_COLOR_TYPE_GRAY_ALPHA, "ab"), 3);
  ASSERT_TRUE(gray.ok()) << gray.status();
  EXPECT_THAT(gray->pixels, ElementsAre('a', 'a', 'a'));
}

TEST(DecodePictureTest, ConvertsColorsToGrayAsPillow) {
  Picture picture = MakePicture(1, 1, 3, 0);
  picture.pixels = {200, 100, 50};
  // Pillow: Image.new("RGB", (1, 1), (200, 100, 50)).convert("L").
  EXPECT_THAT(WithChannels(picture, 1).pixels, ElementsAre(124));
}

TEST(DecodePictureTest, JpegsComeCloseToTheirPixels) {
  for (const bool progressive : {false, true}) {
    const std::vector<uint8_t> gray(64 * 48, 100);
    const auto picture =
        DecodePicture(EncodeJpeg(48, 64, 1, gray, progressive), 1);
    ASSERT_TRUE(picture.ok()) << picture.status();
    EXPECT_EQ(picture->height, 48);
    EXPECT_EQ(picture->width, 64);
    for (const uint8_t pixel : picture->pixels) EXPECT_NEAR(pixel, 100, 1);
  }
}

TEST(DecodePictureTest, RefusesCmykJpegs) {
  EXPECT_THAT(ErrorOf(EncodeJpeg(8, 8, 4, std::vector<uint8_t>(256, 9))),
              HasSubstr("colors are CMYK; convert it to RGB"));
}

TEST(DecodePictureTest, RefusesJpegsWithTwoChannels) {
  EXPECT_THAT(ErrorOf(EncodeJpeg(8, 8, 2, std::vector<uint8_t>(128, 9))),
              HasSubstr("neither one nor three channels"));
}

TEST(DecodePictureTest, RefusesTruncatedFiles) {
  const Picture picture = MakePicture(32, 32, 3, 1);
  const std::string png = EncodePng(picture);
  const std::string jpeg = EncodeJpeg(32, 32, 3, picture.pixels);
  for (size_t size = 10; size + 3 < jpeg.size(); size += 41) {
    EXPECT_THAT(ErrorOf(jpeg.substr(0, size)), HasSubstr("damaged"));
  }
  for (size_t size = 10; size < png.size(); size += 41) {
    EXPECT_THAT(ErrorOf(png.substr(0, size)), HasSubstr("ends too early"));
  }
}

TEST(DecodePictureTest, RefusesPngsWithAWrongChecksum) {
  std::string png = EncodePng(MakePicture(16, 16, 3, 1));
  png[60] ^= 1;
  EXPECT_THAT(ErrorOf(png), HasSubstr("cannot be decoded"));
}

TEST(DecodePictureTest, ChecksTheSizeBeforeItAllocates) {
  // A header that declares 65,000 x 65,000 pixels.
  std::string jpeg = EncodeJpeg(8, 8, 1, std::vector<uint8_t>(64, 9));
  const size_t frame = jpeg.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  jpeg.replace(frame + 5, 4, "\xfd\xe8\xfd\xe8");
  EXPECT_THAT(ErrorOf(jpeg), HasSubstr("too many pixels"));
}

TEST(DecodePictureTest, NamesOtherTypes) {
  EXPECT_EQ(ErrorOf("GIF89a"), "the file is neither a JPEG nor a PNG file");
  EXPECT_EQ(ErrorOf(""), "the file is empty; expected a JPEG or PNG file");
}

}  // namespace
}  // namespace tributary
