#include "worker/data/images/picture_encoding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace tributary {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr size_t kMaxBytes = 1000;

std::string EncodingError(const std::string& json) {
  const absl::StatusOr<PictureEncoding> encoding =
      PictureEncoding::FromJson(json);
  EXPECT_EQ(encoding.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(encoding.status().message());
}

TEST(PictureEncodingTest, ReadsWhatItHasWritten) {
  const PictureEncoding encoding = {32, 48, {"cat", "d\"og"}};
  const absl::StatusOr<PictureEncoding> read =
      PictureEncoding::FromJson(encoding.ToJson(kMaxBytes));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->height, 32);
  EXPECT_EQ(read->width, 48);
  EXPECT_THAT(read->classes, ElementsAre("cat", "d\"og"));
}

TEST(PictureEncodingTest, ReplacesBytesThatAreNotUtf8) {
  const PictureEncoding encoding = {8, 8, {"caf\xe9", "tea"}};
  const absl::StatusOr<PictureEncoding> read =
      PictureEncoding::FromJson(encoding.ToJson(kMaxBytes));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(read->classes, ElementsAre("caf\xef\xbf\xbd", "tea"));
}

TEST(PictureEncodingTest, LeavesOutNamesThatAreTooLong) {
  const PictureEncoding encoding = {8, 8, {std::string(kMaxBytes, 'a'), "b"}};
  const std::string json = encoding.ToJson(kMaxBytes);
  EXPECT_LE(json.size(), kMaxBytes);
  const absl::StatusOr<PictureEncoding> read = PictureEncoding::FromJson(json);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->height, 8);
  EXPECT_THAT(read->classes, IsEmpty());
}

TEST(PictureEncodingTest, NamesWhatIsWrong) {
  EXPECT_THAT(EncodingError("[]"), HasSubstr("it is no JSON object"));
  EXPECT_THAT(EncodingError(R"({"height": 8, "width": 8})"),
              HasSubstr("tributary-pictures-1"));
  const std::string format = R"({"format": "tributary-pictures-1", )";
  EXPECT_THAT(EncodingError(format + R"("height": 0, "width": 8})"),
              HasSubstr("`height` "));
  EXPECT_THAT(EncodingError(format + R"("height": 8, "width": -8})"),
              HasSubstr("`width` "));
  EXPECT_THAT(EncodingError(format + R"("height": 99999999999, "width": 8})"),
              HasSubstr("`height` "));
  EXPECT_THAT(
      EncodingError(format + R"("height": 8, "width": 8, "classes": 2})"),
      HasSubstr("`classes` must be a list"));
  EXPECT_THAT(
      EncodingError(format + R"("height": 8, "width": 8, "classes": [2]})"),
      HasSubstr("a class must be a string"));
}

}  // namespace
}  // namespace tributary
