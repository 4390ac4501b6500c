#include "deploy/launch/job/run_token.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/os/untrusted_folder.h"
#include "common/transport/security.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

class RunTokenTest : public testing::Test {
 protected:
  RunTokenTest() : folder_(absl::StrCat(testing::TempDir(), "/run-XXXXXX")) {
    EXPECT_NE(mkdtemp(&folder_[0]), nullptr);
  }

  std::string Read() const {
    return CredentialsOfRun(UntrustedFolder(folder_), Security()).token;
  }

  std::string folder_;
  SecurityFlags flags_;
  Security own_;
};

TEST_F(RunTokenTest, IsReadableForItsUserOnlyAndRemovedAtTheEnd) {
  auto token = RunToken::Create(folder_, &flags_, &own_);
  ASSERT_TRUE(token.ok()) << token.status();
  struct stat facts = {};
  ASSERT_EQ(stat(flags_.token_file.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 07777, 0600u);
  const auto read = LoadSecurity("", flags_.token_file, {Role::kServer});
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->token, own_.token);
  EXPECT_EQ(Read(), own_.token);
  token->reset();
  EXPECT_NE(stat(flags_.token_file.c_str(), &facts), 0);
}

TEST_F(RunTokenTest, ReplacesTheTokenOfALauncherThatWasKilled) {
  ASSERT_EQ(symlink("/dev/full", (folder_ + "/token").c_str()), 0);
  const auto token = RunToken::Create(folder_, &flags_, &own_);
  ASSERT_TRUE(token.ok()) << token.status();
  SecurityFlags others;
  Security other;
  const auto second = RunToken::Create(folder_, &others, &other);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_NE(own_.token, other.token);
}

TEST_F(RunTokenTest, ChangesNothingForAJobWithCredentials) {
  for (SecurityFlags given : {SecurityFlags{"certificates", ""},
                              SecurityFlags{"", "token-of-the-user"}}) {
    const SecurityFlags before = given;
    const auto token = RunToken::Create(folder_, &given, &own_);
    ASSERT_TRUE(token.ok()) << token.status();
    EXPECT_EQ(*token, nullptr);
    EXPECT_EQ(given.token_file, before.token_file);
    EXPECT_EQ(own_.token, "");
  }
}

TEST_F(RunTokenTest, IsNotUsedByAUserWithCredentials) {
  const auto token = RunToken::Create(folder_, &flags_, &own_);
  ASSERT_TRUE(token.ok()) << token.status();
  Security given;
  given.token = "given";
  EXPECT_EQ(CredentialsOfRun(UntrustedFolder(folder_), given).token, "given");
}

TEST_F(RunTokenTest, IsNotReadFromAnythingButARegularFile) {
  const std::string path = folder_ + "/token";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(Read(), "");
  ASSERT_EQ(unlink(path.c_str()), 0);
  std::ofstream(folder_ + "/other") << "secret\n";
  ASSERT_EQ(symlink("other", path.c_str()), 0);
  EXPECT_EQ(Read(), "");
}

}  // namespace
}  // namespace tributary
