// The public interface is the one that public_interface.txt records, and its
// version is raised when it changes.
#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/command_runner.h"

namespace tributary {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kScript[] = "tests/library/install/interface_version.py";

CommandResult RunVersionScript(const std::string& command,
                               const std::string& recorded,
                               const std::string& actual) {
  return RunCommand({"/usr/bin/python3", kScript, command, recorded, actual});
}

TEST(PublicInterfaceTest, IsTheRecordedOne) {
  const CommandResult result =
      RunVersionScript("check", "tests/library/install/public_interface.txt",
                       "library/install/public_interface.txt");
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
}

TEST(PublicInterfaceTest, TheManualStatesTheVersionOfTheSymbols) {
  const std::string script =
      ReadWholeFile("library/install/version_script.lds");
  const std::string version = script.substr(0, script.find(' '));
  EXPECT_THAT(version, StartsWith("TRIBUTARY_"));
  const std::string page = ReadWholeFile("docs/cpp.md");
  const std::string statement =
      "carry the version of the interface, which\nis `";
  const size_t begin = page.find(statement);
  ASSERT_NE(begin, std::string::npos);
  EXPECT_THAT(page.substr(begin + statement.size()),
              StartsWith(absl::StrCat(version, "`")));
}

// A library with the functions F and G.
class InterfaceVersionTest : public testing::Test {
 protected:
  // Records the interface of version `version`.
  void Record(const std::string& version) {
    // The digest of the two declarations.
    WriteWholeFile(recorded_,
                   absl::StrCat("release ", version,
                                " 172ea79d82268582c72443c479ce7436"
                                "6112aa2f0ed7d9c8920b34b42024ed0c\nversion ",
                                version, "\n== a.h\nvoid F();\nvoid G();\n"));
  }
  void Change(const std::string& version, const std::string& declarations) {
    WriteWholeFile(
        actual_, absl::StrCat("version ", version, "\n== a.h\n", declarations));
  }
  CommandResult Script(const std::string& command) {
    return RunVersionScript(command, recorded_, actual_);
  }
  // Expects that the change is refused until VERSION is at least `least`.
  void ExpectRefused(const std::string& least) {
    const std::string before = ReadWholeFile(recorded_);
    for (const char* command : {"check", "record"}) {
      const CommandResult result = Script(command);
      EXPECT_EQ(result.exit_code, 1) << command;
      EXPECT_THAT(result.standard_error,
                  HasSubstr(absl::StrCat("Raise it in version.bzl to ", least,
                                         " or higher")));
    }
    EXPECT_EQ(ReadWholeFile(recorded_), before);
  }
  // Expects that the change is accepted, but must be recorded.
  void ExpectRecorded() {
    const CommandResult unrecorded = Script("check");
    EXPECT_EQ(unrecorded.exit_code, 1);
    EXPECT_THAT(unrecorded.standard_error, HasSubstr("allows the change"));
    EXPECT_EQ(Script("record").standard_error, "");
    EXPECT_EQ(Script("check").standard_error, "");
  }

  const std::string folder_ = MakeTestFolder();
  const std::string recorded_ = folder_ + "/recorded.txt";
  const std::string actual_ = folder_ + "/actual.txt";
};

TEST_F(InterfaceVersionTest, AnUnchangedInterfacePasses) {
  Record("0.3.1");
  Change("0.3.1", "void F();\nvoid G();\n");
  EXPECT_EQ(Script("check").standard_error, "");
}

TEST_F(InterfaceVersionTest, BeforeVersion1AChangeNeedsANewMinorVersion) {
  Record("0.3.1");
  for (const char* changed : {"void F();\n", "void F();\nint G();\n"}) {
    Change("0.3.2", changed);
    ExpectRefused("0.4.0");
  }
  EXPECT_THAT(
      Script("check").standard_error,
      AllOf(HasSubstr("removed or changed"), HasSubstr("a.h: void G();")));
  Change("0.4.0", "void F();\nint G();\n");
  ExpectRecorded();
  EXPECT_THAT(ReadWholeFile(recorded_),
              AllOf(HasSubstr("release 0.3.1 "), HasSubstr("release 0.4.0 ")));
}

TEST_F(InterfaceVersionTest, BeforeVersion1AnAdditionNeedsNoNewVersion) {
  Record("0.3.1");
  Change("0.3.1", "void F();\nvoid G();\nvoid H();\n");
  ExpectRecorded();
}

TEST_F(InterfaceVersionTest, FromVersion1AChangeNeedsANewMajorVersion) {
  Record("1.2.0");
  Change("1.3.0", "void F();\n");
  ExpectRefused("2.0.0");
  Change("2.0.0", "void F();\n");
  ExpectRecorded();
}

TEST_F(InterfaceVersionTest, FromVersion1AnAdditionNeedsANewMinorVersion) {
  Record("1.2.0");
  Change("1.2.1", "void F();\nvoid G();\nvoid H();\n");
  ExpectRefused("1.3.0");
  Change("1.3.0", "void F();\nvoid G();\nvoid H();\n");
  ExpectRecorded();
}

TEST_F(InterfaceVersionTest, AVersionMustNotBecomeLower) {
  Record("0.3.1");
  Change("0.3.0", "void F();\nvoid G();\n");
  EXPECT_THAT(Script("check").standard_error, HasSubstr("raise VERSION"));
}

// A copy of the new interface would hide what was removed.
TEST_F(InterfaceVersionTest, TheRecordMustMatchItsDigest) {
  Record("0.3.1");
  std::string text = ReadWholeFile(recorded_);
  text.resize(text.size() - std::string("void G();\n").size());
  WriteWholeFile(recorded_, text);
  Change("0.3.1", "void F();\n");
  for (const char* command : {"check", "record"}) {
    EXPECT_THAT(Script(command).standard_error,
                HasSubstr("digest of version 0.3.1"));
  }
}

}  // namespace
}  // namespace tributary
