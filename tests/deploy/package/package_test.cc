// The packages that `./tributary package` builds, and the pages in them.
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/command_runner.h"

namespace tributary {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kPackages[] = "deploy/package/";

// Runs a script with bash. The script ends at the first command that fails. The
// time limit suffices for compressing packages on a busy machine.
CommandResult Bash(const std::string& script) {
  BackgroundCommand command({"/bin/bash", "-euo", "pipefail", "-c", script});
  return command.Wait(absl::Minutes(10));
}

// Returns the lines that a script prints. Fails the test if the script fails.
std::vector<std::string> Lines(const std::string& script) {
  const CommandResult result = Bash(script);
  EXPECT_EQ(result.exit_code, 0) << script << "\n" << result.standard_error;
  return absl::StrSplit(result.standard_output, '\n', absl::SkipEmpty());
}

bool Installed(const std::string& program) {
  return Bash(absl::StrCat("command -v ", program)).exit_code == 0;
}

class HelpPagesTest : public testing::Test {
 protected:
  HelpPagesTest() {
    Lines(absl::StrCat("tar -xf ", kPackages, "help_pages.tar -C ", folder_));
  }

  // Returns what completes the last of `words`, the words after "tributary".
  // bash accepts compopt only while it completes.
  std::vector<std::string> Completions(const std::string& words) {
    return Lines(absl::StrCat("source ", folder_,
                              "/share/bash-completion/completions/tributary\n"
                              "COMP_WORDS=(tributary ",
                              words,
                              ")\n"
                              "COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n"
                              "compopt() { :; }\n"
                              "_tributary\n"
                              "printf '%s\\n' \"${COMPREPLY[@]}\""));
  }

  const std::string folder_ = MakeTestFolder();
};

TEST_F(HelpPagesTest, EachCommandHasAManPage) {
  EXPECT_THAT(
      Lines(absl::StrCat("cd ", folder_, "/share/man/man1 && ls")),
      IsSupersetOf({"tributary.1", "tributary-train.1",
                    "tributary-bench-step.1", "tributary-checkpoint-diff.1"}));
  const std::string page =
      ReadWholeFile(folder_ + "/share/man/man1/tributary-train.1");
  EXPECT_THAT(page, HasSubstr("tributary\\-train \\- trains a job"));
  const CommandResult help = RunCommand({kTributary, "train", "--help"});
  int flags = 0;
  for (absl::string_view line : absl::StrSplit(help.standard_output, '\n')) {
    if (!absl::StartsWith(line, "  --")) continue;
    const std::vector<std::string> words =
        absl::StrSplit(line, ' ', absl::SkipEmpty());
    const std::string name = words[0].substr(2);
    EXPECT_THAT(page, HasSubstr(absl::StrCat(
                          "\\fB\\-\\-",
                          absl::StrJoin(absl::StrSplit(name, '-'), "\\-"))));
    ++flags;
  }
  EXPECT_GT(flags, 20);
}

TEST_F(HelpPagesTest, ManPagesHaveNoErrors) {
  if (!Installed("man")) GTEST_SKIP() << "man is not installed";
  EXPECT_THAT(Lines(absl::StrCat("for page in ", folder_,
                                 "/share/man/man1/*; do\n"
                                 "  man --local-file --warnings \"$page\" 2>&1 "
                                 ">/dev/null\n"
                                 "done")),
              ElementsAre());
}

TEST_F(HelpPagesTest, BashCompletesCommandsFlagsAndValues) {
  EXPECT_THAT(Completions("tr"), ElementsAre("train"));
  EXPECT_THAT(Completions("bench s"), ElementsAre("step"));
  EXPECT_THAT(Completions("train --server"),
              ElementsAre("--servers", "--server-device"));
  EXPECT_THAT(Completions("bench step --mo"), ElementsAre("--mode"));
  EXPECT_THAT(Completions("bench step --mode i"), ElementsAre("independent"));
  // Numbers cannot be completed, and must not become files.
  EXPECT_THAT(Completions("train --workers ''"), ElementsAre());
  EXPECT_THAT(Completions("train " + folder_ + "/sh"),
              ElementsAre(folder_ + "/share"));
}

TEST_F(HelpPagesTest, ZshReadsItsCompletions) {
  const std::string file = folder_ + "/share/zsh/site-functions/_tributary";
  const std::string text = ReadWholeFile(file);
  EXPECT_THAT(
      text, AllOf(StartsWith("#compdef tributary\n"), HasSubstr("train:train "),
                  HasSubstr("'*--device[Device that computes.")));
  if (!Installed("zsh")) GTEST_SKIP() << "zsh is not installed";
  EXPECT_THAT(Lines("zsh -n " + file), ElementsAre());
}

class ArchiveTest : public testing::Test {
 protected:
  ArchiveTest() {
    Lines(absl::StrCat("mkdir '", folder_, "' && tar -xf ", kPackages,
                       "tributary-*.tar.gz --strip-components=1 -C '", folder_,
                       "'"));
  }

  // A name that a script could split.
  const std::string folder_ = MakeTestFolder() + "/any folder";
};

TEST_F(ArchiveTest, NeedsOnlyTheCLibrary) {
  const std::vector<std::string> libraries = Lines(absl::StrCat(
      "cd /; LD_TRACE_LOADED_OBJECTS=1 '", folder_, "/bin/tributary'"));
  EXPECT_GT(libraries.size(), 20u);
  EXPECT_THAT(libraries,
              Each(AnyOf(HasSubstr("/any folder/bin/../lib/tributary/"),
                         HasSubstr("linux-vdso"), HasSubstr("ld-linux"),
                         HasSubstr("libc.so.6"), HasSubstr("libm.so.6"),
                         HasSubstr("libresolv.so.2"))));
}

TEST_F(ArchiveTest, TrainsInAnyFolder) {
  const std::string run = MakeTestFolder() + "/run";
  RunExpecting(0, {folder_ + "/bin/tributary", "train",
                   folder_ + "/share/tributary/examples/csv.textproto", "--set",
                   absl::StrCat("data.csv.train=\"", folder_,
                                "/share/tributary/examples/data/waves.train."
                                "csv\""),
                   "--set",
                   absl::StrCat("data.csv.test=\"", folder_,
                                "/share/tributary/examples/data/waves.test."
                                "csv\""),
                   "--steps", "3", "--output", run});
  EXPECT_THAT(ReadWholeFile(run + "/summary.json"),
              HasSubstr("weights_sha256"));
}

TEST_F(ArchiveTest, HasTheTextsOfTheBuiltInJobAndLicenses) {
  Lines(absl::StrCat("cd '", folder_, "/share'\n",
                     "test -s tributary/texts/GPL-3\n"
                     "test -s doc/tributary/LICENSE\n"
                     "test -s doc/tributary/licenses/libgrpc29/copyright\n"
                     "test -s man/man1/tributary-train.1\n"));
}

// Packs the same program again, on another day.
TEST_F(ArchiveTest, HasTheSameBytesWhenPackedAgain) {
  const std::string folder = MakeTestFolder();
  Lines(absl::StrCat(
      "name=$(basename ", kPackages, "tributary-*.tar.gz .tar.gz)\n", kPackages,
      "make_archive.sh ", folder, "/again.tar.gz $name ", kPackages,
      "tributary deploy/compose/libraries.sh ", kPackages, "help_pages.tar ",
      kPackages, "manual.tar LICENSE\n", "cmp ", folder, "/again.tar.gz ",
      kPackages, "$name.tar.gz"));
}

TEST(DebTest, DeclaresWhatItNeedsAndHasTheSameBytesWhenMadeAgain) {
  if (!Installed("dpkg-shlibdeps")) GTEST_SKIP() << "dpkg-dev is not installed";
  const std::string folder = MakeTestFolder();
  for (const char* name : {"/a.deb", "/b.deb"}) {
    Lines(absl::StrCat(kPackages, "make_deb.sh ", folder, name,
                       " 1.2.3 library/install/package.tar ", kPackages,
                       "manual.tar deploy/systemd/*.service"));
  }
  Lines(absl::StrCat("cmp ", folder, "/a.deb ", folder, "/b.deb"));
  const std::string control =
      absl::StrJoin(Lines("dpkg-deb --field " + folder + "/a.deb"), "\n");
  EXPECT_THAT(control,
              AllOf(HasSubstr("Package: tributary\nVersion: 1.2.3\n"),
                    HasSubstr("libc6 (>="), HasSubstr("libgrpc++"),
                    HasSubstr("libstdc++6 (>= "), Not(HasSubstr("nvidia")),
                    Not(HasSubstr("Depends: tributary"))));
  const std::string files =
      absl::StrJoin(Lines("dpkg-deb --contents " + folder + "/a.deb"), "\n");
  EXPECT_THAT(
      files,
      AllOf(HasSubstr(" root/root "), HasSubstr("./usr/bin/tributary\n"),
            HasSubstr("./usr/share/man/man1/tributary.1.gz"),
            HasSubstr("./usr/share/zsh/vendor-completions/_tributary"),
            HasSubstr("./usr/share/tributary/examples/licenses.textproto"),
            HasSubstr("./usr/lib/systemd/system/tributary-server@.service"),
            HasSubstr("./usr/share/doc/tributary/copyright")));
  // Jobs find the data of the package from any folder.
  Lines(absl::StrCat(
      "cd ", folder, "\ndpkg-deb --extract a.deb .\n",
      "! grep -d skip '\"examples/' usr/share/tributary/examples/*\n",
      "test -s .$(sed -n 's|.*\"\\(/usr/.*train.csv\\)\".*|\\1|p' "
      "usr/share/tributary/examples/csv.textproto)"));
}

class ManualTest : public testing::Test {
 protected:
  ManualTest() {
    Lines(absl::StrCat("tar -xf ", kPackages, "manual.tar -C ", folder_));
  }

  const std::string folder_ = MakeTestFolder();
};

TEST_F(ManualTest, HasTheFilesThatItsPagesLinkTo) {
  const std::vector<std::string> links = Lines(absl::StrCat("cd ", folder_,
                                                            R"(
find . -name '*.md' | while read -r page; do
  { grep -oE '\]\([^) ]+\)' "$page" || true; } | sed -E 's|^..||; s|[#)].*||' |
    while read -r link; do
      [[ -z $link || $link == http* ]] || echo "$(dirname "$page")/$link"
    done
done)"));
  EXPECT_GT(links.size(), 150u);
  for (const std::string& link : links) {
    EXPECT_TRUE(std::filesystem::exists(absl::StrCat(folder_, "/", link)))
        << link;
  }
}

TEST_F(ManualTest, RunsTheInstalledProgram) {
  EXPECT_THAT(
      Lines(absl::StrCat("grep -rE '[.]/tributary( |`|$)' --include=*.md "
                         "--include=*.textproto ",
                         folder_, " || true")),
      Each(ContainsRegex("[.]/tributary (install|package|test|wheel)")));
}

class UnitsTest : public testing::TestWithParam<const char*> {
 protected:
  const std::string path_ =
      absl::StrCat("deploy/systemd/tributary-", GetParam(), "@.service");
};

INSTANTIATE_TEST_SUITE_P(Commands, UnitsTest,
                         testing::Values("server", "worker"));

TEST_P(UnitsTest, UseFlagsThatTheProgramKnows) {
  const std::vector<std::string> start = Lines("grep ^ExecStart= " + path_);
  ASSERT_EQ(start.size(), 1u);
  EXPECT_THAT(start[0], StartsWith(absl::StrCat("ExecStart=/usr/bin/tributary ",
                                                GetParam(), " ")));
  const std::string help = absl::StrJoin(
      Lines(absl::StrCat("deploy/tributary ", GetParam(), " --help")), "\n");
  int flags = 0;
  for (absl::string_view word : absl::StrSplit(start[0], ' ')) {
    if (!absl::StartsWith(word, "--")) continue;
    ++flags;
    EXPECT_THAT(help, HasSubstr(std::string(word.substr(0, word.find('=')))));
  }
  EXPECT_GT(flags, 0);
}

TEST_P(UnitsTest, AreAcceptedBySystemd) {
  if (!Installed("systemd-analyze")) GTEST_SKIP() << "systemd is not installed";
  const std::string unit =
      absl::StrCat(MakeTestFolder(), "/tributary-", GetParam(), "@job.service");
  // The program is not installed here, nor are its pages.
  Lines(absl::StrCat("sed 's|/usr/bin/tributary|/bin/true|; /^Documentation/d'",
                     " ", path_, " >", unit));
  const CommandResult result =
      Bash(absl::StrCat("systemd-analyze verify ", unit, " 2>&1"));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.standard_output, "");
}

}  // namespace
}  // namespace tributary
