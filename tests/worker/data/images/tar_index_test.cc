#include "worker/data/images/tar_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/worker/data/images/picture_test_util.h"

namespace tributary {
namespace {

using testing::HasSubstr;

absl::StatusOr<std::vector<TarMember>> Index(const std::string& archive) {
  return IndexTar(
      [&archive](int64_t offset, int64_t count, std::string* bytes) {
        *bytes = archive.substr(static_cast<size_t>(offset),
                                static_cast<size_t>(count));
        return absl::OkStatus();
      },
      static_cast<int64_t>(archive.size()), "a.tar");
}

std::string TarError(const std::string& archive) {
  return std::string(Index(archive).status().message());
}

TEST(TarIndexTest, ListsFilesWithTheirOffsets) {
  const std::string archive =
      TarFile("cat/", "", '5') + TarFile("cat/1.png", "abc") +
      TarFile("cat/2.png", std::string(513, 'x')) + TarFile("e", "") + TarEnd();
  const auto members = Index(archive);
  ASSERT_TRUE(members.ok()) << members.status();
  ASSERT_EQ(members->size(), 3u);
  EXPECT_EQ((*members)[0].name, "cat/1.png");
  EXPECT_EQ(archive.substr(static_cast<size_t>((*members)[0].offset), 3),
            "abc");
  EXPECT_EQ((*members)[1].size, 513);
  EXPECT_EQ((*members)[2].name, "e");
}

TEST(TarIndexTest, ReadsLongNames) {
  const std::string name = std::string(150, 'a') + "/1.png";
  const std::string record = absl::StrCat("path=", name, "\n");
  const std::string pax = absl::StrCat(record.size() + 4, " ", record);
  const std::string archive =
      TarFile("././@LongLink", name + '\0', 'L') + TarFile("cut", "1") +
      TarFile("header", pax, 'x') + TarFile("cut", "2") +
      TarHeader("1.png", 0, '0', "prefix") + TarEnd();
  const auto members = Index(archive);
  ASSERT_TRUE(members.ok()) << members.status();
  ASSERT_EQ(members->size(), 3u);
  EXPECT_EQ((*members)[0].name, name);
  EXPECT_EQ((*members)[1].name, name);
  EXPECT_EQ((*members)[2].name, "prefix/1.png");
}

TEST(TarIndexTest, NeedsNoEndMark) {
  const auto members = Index(TarFile("a/1.png", "abc"));
  ASSERT_TRUE(members.ok()) << members.status();
  EXPECT_EQ(members->size(), 1u);
}

TEST(TarIndexTest, RefusesArchivesThatEndWithinAMember) {
  const std::string archive = TarFile("a/1.png", std::string(600, 'x'));
  EXPECT_THAT(TarError(archive.substr(0, 1000)),
              HasSubstr("a.tar: byte 0: the archive ends"));
  EXPECT_THAT(TarError(archive + std::string(100, 'x')),
              HasSubstr("a.tar: byte 1536: the archive ends"));
}

TEST(TarIndexTest, RefusesOtherFiles) {
  EXPECT_THAT(TarError(std::string(600, 'x')),
              HasSubstr("a.tar: byte 0: expected"));
  EXPECT_THAT(TarError("\x1f\x8b" + std::string(600, 'x')),
              HasSubstr("compressed"));
}

TEST(TarIndexTest, RefusesMalformedPaxHeaders) {
  EXPECT_THAT(TarError(TarFile("h", "99 path=a\n", 'x') + TarFile("a", "b")),
              HasSubstr("the extended (pax) header is malformed"));
}

}  // namespace
}  // namespace tributary
