#include "common/transport/token_file.h"

#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/os/file.h"
#include "common/transport/authorizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kOld[] = "old-0123456789abcdef";
constexpr char kNew[] = "new-0123456789abcdef";

// A directory that Kubernetes mounts for a Secret: the file is a link to
// ..data/token, and ..data is a link to the directory of the current version.
class TokenFileTest : public testing::Test {
 protected:
  TokenFileTest()
      : directory_(absl::StrCat(
            testing::TempDir(), "/",
            testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
    Publish(absl::StrCat(kOld, "\n"));
    std::filesystem::create_symlink("..data/token", path());
  }

  std::string path() const { return directory_ + "/token"; }

  // Replaces the Secret's version in one rename.
  void Publish(const std::string& text) {
    const std::string version = absl::StrCat("..version-", ++versions_);
    std::filesystem::create_directories(directory_ + "/" + version);
    ASSERT_TRUE(
        WriteFileAtomically(directory_ + "/" + version + "/token", {text})
            .ok());
    std::filesystem::create_symlink(version, directory_ + "/..tmp");
    std::filesystem::rename(directory_ + "/..tmp", directory_ + "/..data");
  }

  std::shared_ptr<const TokenFile> Open() {
    return TokenFile::Open(path()).value();
  }

  // Blocks until `file` has read a version whose first token is `token`.
  static void AwaitFirst(const TokenFile& file, const std::string& token) {
    const absl::Time deadline = absl::Now() + absl::Minutes(1);
    while (file.tokens().front() != token && absl::Now() < deadline) {
      absl::SleepFor(absl::Milliseconds(10));
    }
    EXPECT_EQ(file.tokens().front(), token);
  }

  const std::string directory_;
  int versions_ = 0;
};

TEST_F(TokenFileTest, FollowsAReplacedSecret) {
  const auto file = Open();
  EXPECT_THAT(file->tokens(), ElementsAre(kOld));
  Publish(absl::StrCat(kNew, "\n", kOld, "\n"));
  AwaitFirst(*file, kNew);
  EXPECT_THAT(file->tokens(), ElementsAre(kNew, kOld));
}

TEST_F(TokenFileTest, FollowsTheFileAfterAVersionThatCannotBeUsed) {
  const auto file = Open();
  Publish("short\n");
  EXPECT_THAT(file->tokens(), ElementsAre(kOld));
  Publish(kNew);
  AwaitFirst(*file, kNew);
}

TEST_F(TokenFileTest, RefusesMoreTokensThanARotationNeeds) {
  Publish(absl::StrCat(kOld, "1\n", kOld, "2\n", kOld, "3\n", kOld, "4\n"));
  EXPECT_EQ(Open()->tokens().size(), 4u);
  Publish(absl::StrCat(kOld, "1\n", kOld, "2\n", kOld, "3\n", kOld, "4\n", kNew,
                       "\n"));
  EXPECT_THAT(TokenFile::Open(path()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("or up to 4 such lines")));
}

// The three steps of docs/kubernetes.md. Processes read a step's file at
// different times, so at each step a caller that is one step behind, and one
// that is one step ahead, must be accepted.
TEST_F(TokenFileTest, NoStepOfARotationRefusesACaller) {
  const std::string steps[] = {kOld, absl::StrCat(kOld, "\n", kNew),
                               absl::StrCat(kNew, "\n", kOld), kNew};
  for (int server = 0; server < 4; ++server) {
    // Has its own copy of the file, because the loop below changes the file.
    const std::string copy = directory_ + "/server";
    ASSERT_TRUE(WriteFileAtomically(copy, {steps[server]}).ok());
    Security security;
    security.token_file = TokenFile::Open(copy).value();
    for (int caller = server - 1; caller <= server + 1; ++caller) {
      if (caller < 0 || caller > 3) continue;
      Publish(steps[caller]);
      const std::string sent = Open()->tokens().front();
      EXPECT_TRUE(Authorizer(security)
                      .Check("/tributary.Rendezvous/GetStatus",
                             AuthorizationValue(sent), {})
                      .ok())
          << server << " " << caller;
    }
  }
}

}  // namespace
}  // namespace tributary
