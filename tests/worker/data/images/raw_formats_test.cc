#include "worker/data/images/raw_formats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/worker/data/images/picture_test_util.h"

namespace tributary {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

template <typename T>
std::string MessageOf(const absl::StatusOr<T>& result) {
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(result.status().message());
}

TEST(RawFormatsTest, ReadsCifar) {
  std::string bytes(2 * 3074, '\0');
  bytes[0] = 9;
  bytes[1] = 42;
  bytes[3075] = 99;
  const auto layout = ParseCifar(bytes, /*fine=*/true, "f");
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(layout->count, 2);
  EXPECT_THAT(layout->labels, ElementsAre(42, 99));
  EXPECT_THAT(MessageOf(ParseCifar(bytes, /*fine=*/false, "f")),
              HasSubstr("has 6148 bytes"));
  bytes[1] = 100;
  EXPECT_THAT(MessageOf(ParseCifar(bytes, /*fine=*/true, "f")),
              HasSubstr("f: byte 1: label 100; labels are below 100"));
}

TEST(RawFormatsTest, ReadsNpyPictures) {
  const auto layout =
      ParseNpyPictures(Npy("|u1", {2, 3, 4, 3}, std::string(72, 'x')), "f");
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(layout->count, 2);
  EXPECT_EQ(layout->height, 3);
  EXPECT_EQ(layout->width, 4);
  EXPECT_EQ(layout->channels, 3);
  EXPECT_THAT(MessageOf(ParseNpyPictures(Npy("<f4", {1, 1, 1}, "abcd"), "f")),
              HasSubstr("<f4"));
  EXPECT_THAT(MessageOf(ParseNpyPictures(Npy("|u1", {2, 2}, "abcd"), "f")),
              HasSubstr("f: shape [2, 2]; expected [N, height, width]"));
  EXPECT_THAT(MessageOf(ParseNpyPictures(Npy("|u1", {2, 1, 1}, "abc"), "f")),
              HasSubstr("has 3 bytes after its header"));
}

TEST(RawFormatsTest, ReadsNpyLabels) {
  const auto labels = ParseNpyLabels(
      Npy("<i4", {2}, std::string("\x01\x02\0\0\x03\0\0\0", 8)), "f");
  ASSERT_TRUE(labels.ok()) << labels.status();
  EXPECT_THAT(*labels, ElementsAre(513, 3));
  EXPECT_THAT(MessageOf(ParseNpyLabels(Npy("|i1", {1}, "\xff"), "f")),
              HasSubstr("label 0 is negative"));
  EXPECT_THAT(MessageOf(ParseNpyLabels(Npy(">i2", {1}, "ab"), "f")),
              HasSubstr("type >i2, 1 dimensions"));
}

TEST(RawFormatsTest, ReadsIdxOfThreeAndFourDimensions) {
  const auto gray = ParseIdxPictures(Idx({1, 2, 3}, "abcdef"), "f");
  ASSERT_TRUE(gray.ok()) << gray.status();
  EXPECT_EQ(gray->channels, 1);
  const auto color = ParseIdxPictures(Idx({1, 1, 2, 3}, "abcdef"), "f");
  ASSERT_TRUE(color.ok()) << color.status();
  EXPECT_EQ(color->channels, 3);
  EXPECT_EQ(color->first, 20);
  EXPECT_THAT(MessageOf(ParseIdxPictures(Idx({1, 1, 3, 2}, "abcdef"), "f")),
              HasSubstr("with 1 or 3 channels"));
  EXPECT_THAT(MessageOf(ParseIdxPictureLabels(Idx({2}, "abc"), "f")),
              HasSubstr("f: declares 2 labels, but has 3"));
}

}  // namespace
}  // namespace tributary
