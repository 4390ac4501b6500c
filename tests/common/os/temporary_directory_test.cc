#include "common/os/temporary_directory.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(TemporaryDirectoryTest, IsRemovedWithItsContents) {
  std::string path;
  {
    const auto folder = TemporaryDirectory::Create();
    ASSERT_TRUE(folder.ok()) << folder.status();
    path = (*folder)->path();
    std::ofstream(path + "/file") << "text";
    EXPECT_TRUE(std::filesystem::exists(path + "/file"));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(TemporaryDirectoryTest, MayBeKept) {
  std::string path;
  {
    const auto folder = TemporaryDirectory::Create();
    ASSERT_TRUE(folder.ok()) << folder.status();
    path = (*folder)->path();
    (*folder)->Keep();
  }
  EXPECT_TRUE(std::filesystem::exists(path));
  std::filesystem::remove_all(path);
}

TEST(TemporaryDirectoryTest, IsInTheFolderOfTheEnvironment) {
  const std::string parent = testing::TempDir();
  setenv("TMPDIR", parent.c_str(), 1);
  const auto folder = TemporaryDirectory::Create();
  ASSERT_TRUE(folder.ok()) << folder.status();
  EXPECT_THAT((*folder)->path(), StartsWith(parent));
  const std::string missing = absl::StrCat(parent, "/missing");
  setenv("TMPDIR", missing.c_str(), 1);
  EXPECT_THAT(TemporaryDirectory::Create(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(missing)));
  unsetenv("TMPDIR");
}

}  // namespace
}  // namespace tributary
