// `./tributary install`, with a Bazel that makes a package of two files.
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/command_runner.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

// Packs the folder "contents".
constexpr char kBazel[] = R"(#!/bin/bash
echo "$*" >>"$HOME/bazel-calls"
if [[ $1 == info ]]; then
  echo "$HOME/bin-folder"
else
  mkdir -p "$HOME/bin-folder/library/install"
  tar -cf "$HOME/bin-folder/library/install/package.tar" -C "$HOME/contents" .
fi
)";

class InstallScriptTest : public testing::Test {
 protected:
  InstallScriptTest() {
    for (const char* folder :
         {"/checkout", "/checkout/library", "/checkout/library/install",
          "/checkout/third_party", "/checkout/third_party/system", "/bin",
          "/contents", "/contents/bin", "/contents/lib"}) {
      mkdir((home_ + folder).c_str(), 0755);
    }
    WriteScript("checkout/tributary", ReadWholeFile("tributary"));
    WriteScript("checkout/library/install/install.sh",
                ReadWholeFile("library/install/install.sh"));
    WriteScript("checkout/third_party/system/install_packages.sh",
                "#!/bin/bash\n");
    WriteScript("bin/bazel", kBazel);
    WriteWholeFile(home_ + "/contents/bin/tributary", "program 1");
    WriteWholeFile(home_ + "/contents/lib/library", "library 1");
    WriteWholeFile(home_ + "/bazel-calls", "");
  }

  void WriteScript(const std::string& file, const std::string& text) {
    WriteWholeFile(home_ + "/" + file, text);
    chmod((home_ + "/" + file).c_str(), 0755);
  }
  CommandResult Install(std::vector<std::string> arguments,
                        const std::string& destination = "") const {
    arguments.insert(arguments.begin(),
                     {home_ + "/checkout/tributary", "install"});
    return RunCommand(arguments, {"PATH=" + home_ + "/bin:/usr/bin:/bin",
                                  "HOME=" + home_, "DESTDIR=" + destination});
  }
  // Checks a refusal, which must come before anything is built.
  void ExpectRefused(const std::vector<std::string>& arguments, int exit_code,
                     const std::string& message) const {
    const CommandResult result = Install(arguments);
    EXPECT_EQ(result.exit_code, exit_code);
    EXPECT_EQ(result.standard_output, "");
    EXPECT_EQ(result.standard_error, "tributary: " + message + "\n");
    EXPECT_EQ(ReadWholeFile(home_ + "/bazel-calls"), "");
  }
  std::string FilesBelow(const std::string& folder) const {
    return RunCommand({"/bin/bash", "-c",
                       "cd '" + folder + "' && find . ! -type d | sort"})
        .standard_output;
  }

  const std::string home_ = MakeTestFolder();
  const std::string prefix_ = home_ + "/prefix/new";
};

constexpr char kHint[] = "; see ./tributary install --help";

TEST_F(InstallScriptTest, InstallsAndPrintsTheList) {
  const CommandResult result = Install({"--prefix", prefix_});
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_EQ(ReadWholeFile(prefix_ + "/bin/tributary"), "program 1");
  EXPECT_EQ(ReadWholeFile(prefix_ + "/lib/library"), "library 1");
  EXPECT_THAT(result.standard_output, HasSubstr("bin/tributary\n"));
  EXPECT_EQ(ReadWholeFile(prefix_ + "/share/tributary/files.txt"),
            result.standard_output);
  EXPECT_THAT(result.standard_error,
              HasSubstr("installed 3 files to " + prefix_));
  EXPECT_THAT(ReadWholeFile(home_ + "/bazel-calls"),
              HasSubstr("build //library/install:package.tar"));
}

TEST_F(InstallScriptTest, ReplacesAnOlderVersion) {
  ASSERT_EQ(Install({"--prefix", prefix_}).exit_code, 0);
  unlink((home_ + "/contents/lib/library").c_str());
  WriteWholeFile(home_ + "/contents/lib/other", "");
  WriteWholeFile(home_ + "/contents/bin/tributary", "program 2");
  WriteWholeFile(prefix_ + "/lib/users", "");
  for (int i = 0; i < 2; ++i) {
    const CommandResult result = Install({"--prefix=" + prefix_});
    EXPECT_EQ(result.exit_code, 0) << result.standard_error;
    EXPECT_EQ(ReadWholeFile(prefix_ + "/bin/tributary"), "program 2");
    EXPECT_EQ(FilesBelow(prefix_),
              "./bin/tributary\n./lib/other\n./lib/users\n"
              "./share/tributary/files.txt\n");
  }
}

TEST_F(InstallScriptTest, UninstallsOnlyWhatItInstalled) {
  ASSERT_EQ(Install({"--prefix", prefix_}).exit_code, 0);
  WriteWholeFile(prefix_ + "/lib/users", "");
  const CommandResult result = Install({"--prefix", prefix_, "--uninstall"});
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_EQ(FilesBelow(prefix_), "./lib/users\n");
  EXPECT_NE(access((prefix_ + "/bin").c_str(), F_OK), 0);
  EXPECT_EQ(Install({"--prefix", prefix_, "--uninstall"}).exit_code, 1);
}

TEST_F(InstallScriptTest, PutsThePrefixBelowDestdir) {
  const CommandResult result =
      Install({"--prefix", "/opt/tributary"}, home_ + "/package");
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_EQ(ReadWholeFile(home_ + "/package/opt/tributary/bin/tributary"),
            "program 1");
}

TEST_F(InstallScriptTest, RefusesWrongArguments) {
  ExpectRefused({}, 2,
                std::string("install: --prefix is missing; name a folder, such "
                            "as --prefix /usr/local") +
                    kHint);
  ExpectRefused({"--prefix"}, 2,
                std::string("--prefix needs a folder") + kHint);
  ExpectRefused(
      {"--prefix", "here"}, 2,
      std::string("--prefix must be an absolute path, but it is \"here\"") +
          kHint);
  ExpectRefused({"--prefix", prefix_, "all"}, 2,
                std::string("install: unknown argument \"all\"") + kHint);
}

// A file where a folder should be stops every user, root included.
TEST_F(InstallScriptTest, SaysWhereItCannotInstall) {
  WriteWholeFile(home_ + "/prefix", "");
  ExpectRefused({"--prefix", prefix_}, 1,
                "cannot install to " + prefix_ + ": " + home_ +
                    "/prefix is not a folder");
  ExpectRefused({"--prefix", home_ + "/none", "--uninstall"}, 1,
                "nothing to uninstall: " + home_ +
                    "/none/share/tributary/files.txt does not exist; check "
                    "--prefix");
}

TEST_F(InstallScriptTest, HelpBuildsNothing) {
  const CommandResult result = Install({"--help"});
  EXPECT_EQ(result.exit_code, 0);
  for (const char* text :
       {"Usage: ./tributary install ", "--uninstall", "DESTDIR"}) {
    EXPECT_THAT(result.standard_output, HasSubstr(text));
  }
  EXPECT_EQ(ReadWholeFile(home_ + "/bazel-calls"), "");
}

}  // namespace
}  // namespace tributary
