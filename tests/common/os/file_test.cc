#include "common/os/file.h"

#include <dirent.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A folder of its own for each test.
class FileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string folder = testing::TempDir() + "/file_test_XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
  }

  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    DIR* folder = opendir(folder_.c_str());
    while (const dirent* entry = readdir(folder)) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") names.push_back(name);
    }
    closedir(folder);
    return names;
  }

  std::string folder_;
};

TEST_F(FileTest, WritesThePiecesInOrderAndLeavesNothingElse) {
  const std::string path = folder_ + "/f";
  ASSERT_TRUE(WriteFileAtomically(path, {"old"}).ok());
  ASSERT_TRUE(WriteFileAtomically(path, {"one ", "", "two"}).ok());
  EXPECT_EQ(*ReadFile(path, 100), "one two");
  EXPECT_THAT(Names(), ElementsAre("f"));
}

TEST_F(FileTest, AFailedWriteLeavesTheOldFile) {
  const std::string path = folder_ + "/f";
  // A folder that is not empty cannot be replaced by a file.
  ASSERT_EQ(mkdir(path.c_str(), 0777), 0);
  std::ofstream(path + "/inside") << "x";
  EXPECT_THAT(WriteFileAtomically(path, {"new"}),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(Names(), ElementsAre("f"));
  EXPECT_EQ(*ReadFile(path + "/inside", 100), "x");
}

TEST_F(FileTest, ErrorsNameThePathAndTheReason) {
  const absl::Status status =
      WriteFileAtomically(folder_ + "/missing/f", {"x"});
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/missing/f")));
  EXPECT_EQ(ReadFile(folder_ + "/none", 1).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(FileTest, ExchangesNames) {
  FileSystem* const files = FileSystem::Posix();
  ASSERT_TRUE(WriteFileAtomically(folder_ + "/f", {"1"}).ok());
  ASSERT_TRUE(files->MakeFolder(folder_ + "/d").ok());
  ASSERT_EQ(files->Exchange(folder_ + "/f", folder_ + "/d"), absl::OkStatus());
  EXPECT_EQ(*ReadFile(folder_ + "/d", 100), "1");
  EXPECT_THAT(*ListFolder(folder_ + "/f"), IsEmpty());
  EXPECT_EQ(files->Exchange(folder_ + "/f", folder_ + "/none").code(),
            absl::StatusCode::kNotFound);
}

TEST_F(FileTest, ReadsUpToTheLimit) {
  const std::string path = folder_ + "/f";
  const std::string text(100000, 'x');
  ASSERT_TRUE(WriteFileAtomically(path, {text}).ok());
  EXPECT_EQ(*ReadFile(path, 100000), text);
  EXPECT_EQ(ReadFile(path, 99999).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(FileTest, RecognizesWhatACrashHasLeft) {
  EXPECT_TRUE(IsUnfinished(UnfinishedName("f"), "f"));
  EXPECT_TRUE(IsUnfinished("f.tmp-0123456789abcdef", "f"));
  EXPECT_NE(UnfinishedName("f"), UnfinishedName("f"));
  for (const char* name :
       {"f", "f.tmp-", "f.tmp-0123456789abcde", "f.tmp-0123456789abcdef0",
        "f.tmp-0123456789abcdeg", "ff.tmp-0123456789abcdef",
        ".tmp-0123456789abcdef"}) {
    EXPECT_FALSE(IsUnfinished(name, "f")) << name;
  }
}

// Whatever call fails, and if the power is cut as well: the old contents or the
// new, and those if it was said to be so.
TEST_F(FileTest, IsWrittenWhollyOrNotAtAll) {
  const std::string path = folder_ + "/f";
  int64_t calls = 1;
  for (int64_t n = 0; n < calls; ++n) {
    for (const bool lasting : {false, true}) {
      for (const bool power_cut : {false, true}) {
        ASSERT_TRUE(WriteFileAtomically(path, {"old"}).ok());
        FaultyFileSystem disk(folder_);
        ASSERT_TRUE(WriteFileAtomically(path, {"a", "b"}, &disk).ok());
        calls = static_cast<int64_t>(disk.Operations().size());
        FaultyFileSystem::Fault fault;
        fault.operation = calls + n;
        fault.error_number = EIO;
        fault.lasting = lasting;
        disk.SetFault(fault);
        const std::vector<std::string> names = Names();
        const bool written = WriteFileAtomically(path, {"c", "d"}, &disk).ok();
        EXPECT_FALSE(written);
        if (power_cut) disk.LoseUnsynced();
        EXPECT_THAT(*ReadFile(path, 100), testing::AnyOf("ab", "cd"));
        if (!lasting && !power_cut) {
          EXPECT_EQ(Names(), names);
        }
        disk.Heal();
        ASSERT_TRUE(WriteFileAtomically(path, {"e"}, &disk).ok());
        disk.LoseUnsynced();
        EXPECT_EQ(*ReadFile(path, 100), "e");
      }
    }
  }
}

}  // namespace
}  // namespace tributary
