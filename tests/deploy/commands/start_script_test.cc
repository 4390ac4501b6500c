// ./tributary, the script that builds the program and runs it, with a Bazel
// that only writes down how it was called.
#include <sys/stat.h>

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/command_runner.h"

namespace tributary {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Writes a program to where `info` says, which prints its arguments.
constexpr char kBazel[] = R"(#!/bin/bash
echo "$*" >>"$HOME/bazel-calls"
if [[ $1 == info ]]; then
  echo "$HOME/bin-folder"
else
  mkdir -p "$HOME/bin-folder/deploy"
  printf '#!/bin/bash\necho "ran: $*"\n' >"$HOME/bin-folder/deploy/tributary"
  chmod +x "$HOME/bin-folder/deploy/tributary"
fi
)";

// A checkout in which everything is older than a stamp that is made now.
class StartScriptTest : public testing::Test {
 protected:
  StartScriptTest() {
    for (const char* folder :
         {"", "/proto", "/common", "/server", "/worker", "/deploy", "/tests",
          "/third_party", "/third_party/system"}) {
      mkdir((root_ + folder).c_str(), 0755);
    }
    for (const char* file :
         {"/.bazelrc", "/WORKSPACE", "/BUILD", "/version.bzl"}) {
      WriteWholeFile(root_ + file, "");
    }
    Copy("tributary");
    Copy("tests/run_all.sh");
    WriteScript(root_ + "/third_party/system/install_packages.sh",
                "#!/bin/bash\n");
    mkdir((home_ + "/bin").c_str(), 0755);
    WriteScript(home_ + "/bin/bazel", kBazel);
    RunCommand({"/usr/bin/find", root_, "-exec", "/usr/bin/touch",
                "--date=yesterday", "{}", "+"});
  }

  void Copy(const std::string& file) const {
    WriteScript(root_ + "/" + file, ReadWholeFile(file));
  }
  static void WriteScript(const std::string& path, const std::string& text) {
    WriteWholeFile(path, text);
    chmod(path.c_str(), 0755);
  }

  CommandResult Start(std::vector<std::string> arguments,
                      const std::string& variable = "A=b") const {
    arguments.insert(arguments.begin(),
                     {"/usr/bin/env", "PATH=" + home_ + "/bin:/usr/bin:/bin",
                      "HOME=" + home_, variable, root_ + "/tributary"});
    return RunCommand(arguments);
  }
  std::string BazelCalls() const {
    return ReadWholeFile(home_ + "/bazel-calls");
  }

  const std::string home_ = MakeTestFolder();
  const std::string root_ = home_ + "/checkout";
};

constexpr char kOneBuild[] = "build //deploy:tributary\ninfo bazel-bin\n";

TEST_F(StartScriptTest, BuildsOnceAndRuns) {
  const CommandResult first = Start({"train", "a b"});
  EXPECT_EQ(first.exit_code, 0) << first.standard_error;
  EXPECT_EQ(first.standard_output, "ran: train a b\n");
  EXPECT_THAT(first.standard_error, HasSubstr("tributary: building"));
  const CommandResult second = Start({"train", "--help"});
  EXPECT_EQ(second.exit_code, 0) << second.standard_error;
  EXPECT_EQ(second.standard_output, "ran: train --help\n");
  EXPECT_EQ(second.standard_error, "");
  EXPECT_EQ(BazelCalls(), kOneBuild);
}

TEST_F(StartScriptTest, ListsItsOwnCommandsAfterThoseOfTheProgram) {
  for (const char* help : {"--help", "-h", "help"}) {
    const CommandResult result = Start({help});
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_THAT(result.standard_output,
                StartsWith(std::string("ran: ") + help + "\n"));
    for (const char* command : {"test", "install", "package", "wheel"}) {
      EXPECT_THAT(result.standard_output,
                  HasSubstr(std::string("\n  ") + command + " "));
    }
  }
  const CommandResult none = Start({});
  EXPECT_EQ(none.standard_output, "ran: \n");
  EXPECT_THAT(none.standard_error, HasSubstr("\n  wheel "));
}

TEST_F(StartScriptTest, BuildsAgainWhenAFileHasChanged) {
  Start({"train"});
  RunCommand({"/usr/bin/touch", "--date=tomorrow", root_ + "/common"});
  EXPECT_EQ(Start({"train"}).standard_output, "ran: train\n");
  EXPECT_EQ(BazelCalls(), std::string(kOneBuild) + kOneBuild);
}

// A file where a folder should be stops every user, root included.
TEST_F(StartScriptTest, UsesTheUsersCacheWhereTheCheckoutCannotBeWritten) {
  WriteWholeFile(root_ + "/.cache", "");
  const std::string cache = "XDG_CACHE_HOME=" + home_ + "/mine";
  for (const std::string& variable : {cache, cache, std::string("A=b")}) {
    const CommandResult result = Start({"train"}, variable);
    EXPECT_EQ(result.exit_code, 0) << result.standard_error;
    EXPECT_EQ(result.standard_output, "ran: train\n");
  }
  // The third run's cache is another: $HOME/.cache.
  EXPECT_EQ(BazelCalls(), std::string(kOneBuild) + kOneBuild);
  EXPECT_EQ(
      RunCommand({"/bin/ls", home_ + "/mine/tributary"}).standard_output,
      RunCommand({"/bin/ls", home_ + "/.cache/tributary"}).standard_output);
}

TEST_F(StartScriptTest, SaysWhereItCannotWrite) {
  WriteWholeFile(root_ + "/.cache", "");
  WriteWholeFile(home_ + "/mine", "");
  const CommandResult result =
      Start({"train"}, "XDG_CACHE_HOME=" + home_ + "/mine");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.standard_output, "");
  EXPECT_THAT(
      result.standard_error,
      AllOf(StartsWith("tributary: cannot write to "),
            HasSubstr("/checkout/.cache nor to " + home_ + "/mine/tributary/"),
            EndsWith(": set XDG_CACHE_HOME to a folder that you can "
                     "write to\n")));
}

TEST_F(StartScriptTest, SaysThatThereIsNoFolderForCaches) {
  WriteWholeFile(root_ + "/.cache", "");
  const CommandResult result = Start({"train"}, "HOME=");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.standard_error,
              HasSubstr("/checkout/.cache: set XDG_CACHE_HOME"));
}

TEST_F(StartScriptTest, HelpOnTestsBuildsNothing) {
  WriteWholeFile(home_ + "/bazel-calls", "");
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"test", "--help"},
        {"test", "-h"},
        {"test", "--long", "--help"},
        {"test", "--gpu", "//tests/server/...", "--help"}}) {
    const CommandResult result = Start(arguments);
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_EQ(result.standard_error, "");
    for (const char* text : {"Usage: ./tributary test ", "--sanitizer=KIND",
                             "--all", "--gpu", "--long", "bazel test"}) {
      EXPECT_THAT(result.standard_output, HasSubstr(text));
    }
  }
  EXPECT_EQ(BazelCalls(), "");
}

TEST_F(StartScriptTest, TestsPassOnWhatBazelKnows) {
  WriteWholeFile(home_ + "/bazel-calls", "");
  Start({"test", "--nonsense", "//tests/server/..."});
  EXPECT_THAT(BazelCalls(), HasSubstr("--nonsense -- //tests/server/...\n"));
}

TEST_F(StartScriptTest, SlowTestsRunOnlyIfAskedFor) {
  const std::string quick = "--test_tag_filters=-slow";
  for (const auto& [arguments, is_quick] :
       std::vector<std::pair<std::vector<std::string>, bool>>{
           {{"test"}, true},
           {{"test", "--keep_going"}, true},
           {{"test", "--all"}, false},
           {{"test", "--test_filter=A*"}, false},
           {{"test", "//tests/server/..."}, false}}) {
    WriteWholeFile(home_ + "/bazel-calls", "");
    Start(arguments);
    const std::string calls = BazelCalls();
    EXPECT_THAT(calls, HasSubstr("test --build_tests_only"));
    EXPECT_EQ(calls.find(quick) != std::string::npos, is_quick) << calls;
    EXPECT_EQ(calls.find("--all"), std::string::npos) << calls;
  }
}

}  // namespace
}  // namespace tributary
