#include "worker/data/files/data_file.h"

#include <sys/stat.h>

#include <memory>
#include <random>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/data/data_test_util.h"

namespace tributary {
namespace {

using testing::HasSubstr;

// Larger than any buffer of the reader, and not compressible.
std::string Noise(size_t bytes) {
  std::mt19937 random(7);
  std::string result;
  while (result.size() < bytes) result.push_back(static_cast<char>(random()));
  return result;
}

TEST(DataFileTest, ReadsPlainAndCompressedAlike) {
  const DataFolder folder;
  const std::string bytes = Noise(3'000'001);
  for (const std::string& path :
       {folder.Write("plain", bytes), folder.Write("file.gz", Gzip(bytes))}) {
    SCOPED_TRACE(path);
    std::string read = "before";
    ASSERT_EQ(AppendWholeFile(path, kMaxDataBytes, &read), absl::OkStatus());
    EXPECT_EQ(read, absl::StrCat("before", bytes));
  }
}

TEST(DataFileTest, ReadsInPiecesToTheEnd) {
  const DataFolder folder;
  for (const std::string& path : {folder.Write("plain", "abcdefg"),
                                  folder.Write("f.gz", Gzip("abcdefg"))}) {
    SCOPED_TRACE(path);
    auto file = DataFile::Open(path);
    ASSERT_EQ(file.status(), absl::OkStatus());
    EXPECT_GE((*file)->size_bound(), 7);
    std::string read;
    ASSERT_EQ((*file)->Read(3, &read), absl::OkStatus());
    EXPECT_EQ(read, "abc");
    ASSERT_EQ((*file)->Read(0, &read), absl::OkStatus());
    EXPECT_EQ(read, "abc");
    ASSERT_EQ((*file)->Read(100, &read), absl::OkStatus());
    EXPECT_EQ(read, "abcdefg");
    ASSERT_EQ((*file)->Read(100, &read), absl::OkStatus());
    EXPECT_EQ(read, "abcdefg");
  }
}

TEST(DataFileTest, JoinsGzipMembers) {
  const DataFolder folder;
  std::string read;
  ASSERT_EQ(AppendWholeFile(
                folder.Write("two.gz", Gzip("one,") + Gzip("") + Gzip("two")),
                kMaxDataBytes, &read),
            absl::OkStatus());
  EXPECT_EQ(read, "one,two");
}

TEST(DataFileTest, StopsAtTheLimit) {
  const DataFolder folder;
  for (const std::string& path :
       {folder.Write("plain", "abcdefg"),
        // A small file that inflates to 10 MB.
        folder.Write("f.gz", Gzip(std::string(10'000'000, 'x')))}) {
    SCOPED_TRACE(path);
    std::string read;
    EXPECT_THAT(AppendWholeFile(path, 6, &read),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("longer than 6 bytes")));
    EXPECT_LE(read.size(), 7u);
  }
}

TEST(DataFileTest, StopsAtALongLine) {
  const DataFolder folder;
  const std::string lines = absl::StrCat("a\n", std::string(6, 'b'), "\n");
  const std::string endless = lines + std::string(10'000'000, 'x');
  for (const std::string& path :
       {folder.Write("plain", endless), folder.Write("f.gz", Gzip(endless))}) {
    SCOPED_TRACE(path);
    std::string read;
    EXPECT_THAT(AppendLines(path, kMaxDataBytes, 6, &read),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr(absl::StrCat(path, ":3: "))));
    EXPECT_LE(read.size(), size_t{1} << 20);
  }
  std::string read;
  EXPECT_EQ(AppendLines(folder.Write("lines", lines), kMaxDataBytes, 6, &read),
            absl::OkStatus());
  EXPECT_EQ(read, lines);
}

TEST(DataFileTest, EveryCutOfAGzipFileIsRefused) {
  const DataFolder folder;
  const std::string whole = Gzip("some text to compress");
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::string path = folder.Write("cut.gz", whole.substr(0, size));
    std::string read;
    const absl::Status status = AppendWholeFile(path, kMaxDataBytes, &read);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(),
              absl::StrCat(path, ": byte ", size,
                           ": gzip data end too early: the file is cut off"));
  }
}

TEST(DataFileTest, DamagedGzipFilesAreRefused) {
  const DataFolder folder;
  std::string wrong_sum = Gzip("some text to compress");
  wrong_sum[wrong_sum.size() - 8] ^= 1;
  const struct {
    std::string bytes;
    std::string reason;
  } kCases[] = {
      {"plain text", "byte 2: gzip data are damaged: incorrect header check"},
      {Gzip("text") + "more", "incorrect header check"},
      {wrong_sum, "gzip data are damaged: incorrect data check"},
  };
  for (const auto& test : kCases) {
    const std::string path = folder.Write("damaged.gz", test.bytes);
    std::string read;
    const absl::Status status = AppendWholeFile(path, kMaxDataBytes, &read);
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                                 HasSubstr(test.reason)));
    EXPECT_THAT(std::string(status.message()), HasSubstr(path + ": byte "));
  }
}

TEST(DataFileTest, NamedPipesAreRefusedWithoutWaiting) {
  const DataFolder folder;
  const std::string path = folder.PathOf("pipe");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const absl::Status status = DataFile::Open(path).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), path + ": not a regular file");
}

}  // namespace
}  // namespace tributary
