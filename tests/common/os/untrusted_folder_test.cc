#include "common/os/untrusted_folder.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "common/os/temporary_directory.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
namespace fs = std::filesystem;

class UntrustedFolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto created = TemporaryDirectory::Create();
    ASSERT_TRUE(created.ok()) << created.status();
    directory_ = *std::move(created);
    root_ = directory_->path();
    fs::create_directories(root_ + "/run/logs");
    fs::create_directories(root_ + "/other");
    Write("other/secret", "secret\n");
    Write("run/a", "one\ntwo\nthree\n");
    Write("run/logs/b", "b");
  }

  void Write(const std::string& name, const std::string& text) {
    std::ofstream(root_ + "/" + name) << text;
  }
  UntrustedFolder Run() const { return UntrustedFolder(root_ + "/run/"); }

  std::unique_ptr<TemporaryDirectory> directory_;
  std::string root_;
};

TEST_F(UntrustedFolderTest, ReadsRegularFiles) {
  EXPECT_EQ(*Run().Read("a", 14), "one\ntwo\nthree\n");
  EXPECT_EQ(*Run().Read("logs/b", 1), "b");
  EXPECT_EQ(*Run().Subfolder("logs").Read("b", 1), "b");
  EXPECT_EQ(*Run().ReadEnd("a", 10), "three\n");
  EXPECT_EQ(*Run().ReadEnd("a", 100), "one\ntwo\nthree\n");
  EXPECT_EQ(Run().Look("a")->bytes, 14);
  EXPECT_EQ(Run().Open("a")->Read(4, 3), "two");
  char two[3];
  EXPECT_TRUE(Run().Open("a")->ReadAt(4, 3, two));
  EXPECT_EQ(std::string(two, 3), "two");
  EXPECT_FALSE(Run().Open("a")->ReadAt(12, 3, two));
  EXPECT_EQ(Run().path(), root_ + "/run");
  EXPECT_EQ(UntrustedFolder("/").PathOf("a"), "/a");
}

TEST_F(UntrustedFolderTest, LimitsTheSize) {
  EXPECT_THAT(Run().Read("a", 13).status(),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("run/a")));
  // A file with a hole of a terabyte is refused before it is read.
  fs::resize_file(root_ + "/run/a", uint64_t{1} << 40);
  EXPECT_THAT(Run().Read("a", 1 << 20).status(),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("run/a")));
  EXPECT_EQ(Run().ReadEnd("a", 10)->size(), 10u);
}

TEST_F(UntrustedFolderTest, SaysThatAFileIsMissing) {
  EXPECT_THAT(Run().Open("c").status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("run/c")));
  EXPECT_THAT(Run().Look("x/y").status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("run/x/y")));
  EXPECT_THAT(UntrustedFolder(root_ + "/none").Open("a").status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("none")));
}

TEST_F(UntrustedFolderTest, FollowsNoSymbolicLink) {
  fs::create_symlink("../other/secret", root_ + "/run/link");
  fs::create_symlink("a", root_ + "/run/near");
  fs::create_symlink("nowhere", root_ + "/run/broken");
  fs::create_symlink("../other", root_ + "/run/folder");
  for (const char* name : {"link", "near", "broken", "folder/secret"}) {
    SCOPED_TRACE(name);
    const auto refused = StatusIs(absl::StatusCode::kFailedPrecondition,
                                  HasSubstr("symbolic link"));
    EXPECT_THAT(Run().Open(name).status(), refused);
    EXPECT_THAT(Run().Read(name, 100).status(), refused);
    EXPECT_THAT(Run().ReadEnd(name, 100).status(), refused);
    EXPECT_THAT(Run().Look(name).status(), refused);
  }
  EXPECT_THAT(Run().Subfolder("folder").Read("secret", 100).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("symbolic link")));
  EXPECT_THAT(Run().Subfolder("folder").Files(), IsEmpty());
  EXPECT_THAT(Run().Files(), ElementsAre("a"));
  EXPECT_THAT(Run().Folders(), ElementsAre("logs"));
  EXPECT_THAT(Run().Subfolder("logs").Files(), ElementsAre("b"));
}

TEST_F(UntrustedFolderTest, FollowsLinksThatTheUserChose) {
  fs::create_symlink("run", root_ + "/chosen");
  EXPECT_EQ(*UntrustedFolder(root_ + "/chosen").Read("logs/b", 1), "b");
  EXPECT_THAT(UntrustedFolder(root_).Folders(), ElementsAre("other", "run"));
}

// A FIFO without a writer blocks a process that opens it.
TEST_F(UntrustedFolderTest, OpensNoFifoSocketDeviceOrFolder) {
  ASSERT_EQ(mkfifo((root_ + "/run/fifo").c_str(), 0600), 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const int bound = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  // A socket's path must be short.
  const int folder = open((root_ + "/run").c_str(), O_PATH | O_CLOEXEC);
  std::snprintf(address.sun_path, sizeof(address.sun_path),
                "/proc/self/fd/%d/socket", folder);
  ASSERT_EQ(bind(bound, reinterpret_cast<sockaddr*>(&address), sizeof(address)),
            0);
  close(bound);
  close(folder);
  for (const char* name : {"fifo", "socket", "logs"}) {
    SCOPED_TRACE(name);
    EXPECT_THAT(Run().Open(name).status(),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr(root_ + "/run/" + name)));
  }
  EXPECT_THAT(UntrustedFolder("/dev").Open("zero").status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("/dev/zero is ")));
}

// The file may be replaced between the check and the opening.
TEST_F(UntrustedFolderTest, ChecksTheOpenedFileToo) {
  ASSERT_EQ(mkfifo((root_ + "/run/fifo").c_str(), 0600), 0);
  const int fifo =
      open((root_ + "/run/fifo").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  EXPECT_THAT(InputFile::Of(fifo, "x").status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("x is a FIFO")));
  EXPECT_EQ(fcntl(fifo, F_GETFD), -1);  // Closed.
}

TEST_F(UntrustedFolderTest, NamesLeadToNoOtherFolder) {
  for (const char* name :
       {"../other/secret", "/etc/passwd", "logs/../a", "./a", "", "logs//b"}) {
    SCOPED_TRACE(name);
    EXPECT_THAT(Run().Open(name).status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("is not a path within")));
  }
}

}  // namespace
}  // namespace tributary
