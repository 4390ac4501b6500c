#include "deploy/tools/runs/run_folders.h"

#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "tests/deploy/tools/runs/run_files.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RunFoldersTest : public RunFilesTest {
 protected:
  std::vector<std::string> TakeNames() {
    std::vector<std::string> names;
    for (const UntrustedFolder& folder : folders_.TakeNew()) {
      names.push_back(folder.path().substr(root_.size()));
    }
    return names;
  }

  RunFolders folders_;
};

TEST_F(RunFoldersTest, FindsTheRunsOfAFolderAlsoThoseThatBeginLater) {
  EXPECT_TRUE(folders_.empty());
  Write("b/job.textproto", "");
  Write("a/metrics.jsonl", "");
  Write("none/file", "");
  Write("file", "");
  ASSERT_TRUE(folders_.Add(root_ + "/").ok());
  EXPECT_FALSE(folders_.empty());
  EXPECT_THAT(TakeNames(), ElementsAre("/a", "/b"));
  EXPECT_THAT(TakeNames(), IsEmpty());
  Write("0/metrics.jsonl", "");
  EXPECT_THAT(TakeNames(), ElementsAre("/0"));
}

TEST_F(RunFoldersTest, TakesTheFolderOfARun) {
  Write("a/job.textproto", "");
  Write("a/b/job.textproto", "");
  ASSERT_TRUE(folders_.Add(root_ + "/a").ok());
  ASSERT_TRUE(folders_.Add(root_ + "/a/").ok());
  EXPECT_THAT(TakeNames(), ElementsAre("/a"));
}

TEST_F(RunFoldersTest, FollowsOnlyLinksThatTheUserNames) {
  Write("elsewhere/a/job.textproto", "");
  Write("runs/b/job.textproto", "");
  std::filesystem::create_directory_symlink(root_ + "/elsewhere/a",
                                            root_ + "/runs/link");
  ASSERT_TRUE(folders_.Add(root_ + "/runs").ok());
  EXPECT_THAT(TakeNames(), ElementsAre("/runs/b"));
  ASSERT_TRUE(folders_.Add(root_ + "/runs/link").ok());
  EXPECT_THAT(TakeNames(), ElementsAre("/runs/link"));
}

TEST_F(RunFoldersTest, RefusesAFolderThatDoesNotExist) {
  EXPECT_THAT(folders_.Add(root_ + "/none"),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("/none is not a folder")));
}

}  // namespace
}  // namespace tributary
