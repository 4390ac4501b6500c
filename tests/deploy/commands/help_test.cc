// What every command says about itself.
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/command_runner.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

class HelpTest : public testing::TestWithParam<std::string> {};

TEST_P(HelpTest, IsNarrowAndShowsExamplesFirst) {
  const CommandResult result = RunCommand({kTributary, GetParam(), "--help"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.standard_error, "");
  const std::string& help = result.standard_output;
  EXPECT_LT(help.find("Examples:"), help.find("Usage: tributary"));
  EXPECT_THAT(help, HasSubstr("tributary " + GetParam()));
  for (absl::string_view line : absl::StrSplit(help, '\n')) {
    EXPECT_LE(line.size(), 80u) << line;
  }
}

INSTANTIATE_TEST_SUITE_P(All, HelpTest,
                         testing::Values("train", "server", "worker", "status",
                                         "runs", "sample", "export", "tokenize",
                                         "checkpoint", "compare", "plan",
                                         "certs", "bench", "devices",
                                         "conformance"));

TEST(BenchHelpTest, EachBenchmarkDescribesItself) {
  for (const char* name : {"step", "exchange", "stream"}) {
    const CommandResult result =
        RunCommand({kTributary, "bench", name, "--help"});
    EXPECT_EQ(result.exit_code, 0) << name;
    EXPECT_THAT(result.standard_output,
                HasSubstr(std::string("tributary bench ") + name));
    for (absl::string_view line :
         absl::StrSplit(result.standard_output, '\n')) {
      EXPECT_LE(line.size(), 80u) << line;
    }
  }
}

TEST(CheckpointHelpTest, EachActionDescribesItself) {
  for (const char* name : {"ls", "verify", "diff"}) {
    const CommandResult result =
        RunCommand({kTributary, "checkpoint", name, "--help"});
    EXPECT_EQ(result.exit_code, 0) << name;
    EXPECT_THAT(result.standard_output,
                HasSubstr(std::string("Usage: tributary checkpoint ") + name));
    for (absl::string_view line :
         absl::StrSplit(result.standard_output, '\n')) {
      EXPECT_LE(line.size(), 80u) << line;
    }
  }
}

TEST(TopLevelTest, HelpListsTheCommands) {
  const CommandResult result = RunCommand({kTributary, "--help"});
  EXPECT_EQ(result.exit_code, 0);
  for (const char* command : {"train", "server", "worker", "sample",
                              "checkpoint", "compare", "plan", "bench"}) {
    EXPECT_THAT(result.standard_output, HasSubstr(command));
  }
  for (absl::string_view line : absl::StrSplit(result.standard_output, '\n')) {
    EXPECT_LE(line.size(), 80u) << line;
  }
}

TEST(TopLevelTest, WithoutArgumentsHelpsOnStderrAndFails) {
  const CommandResult result = RunCommand({kTributary});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.standard_output, "");
  EXPECT_THAT(result.standard_error, HasSubstr("Usage: tributary COMMAND"));
}

TEST(TopLevelTest, HelpDescribesACommand) {
  const CommandResult result = RunCommand({kTributary, "help", "train"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.standard_output,
            RunCommand({kTributary, "train", "--help"}).standard_output);
  EXPECT_EQ(RunCommand({kTributary, "help", "trian"}).exit_code, 2);
}

TEST(TopLevelTest, TellsItsVersion) {
  const CommandResult result = RunCommand({kTributary, "--version"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.standard_output, testing::StartsWith("tributary 0."));
}

TEST(PrintConfigTest, ShowsTheJobAndWhereValuesComeFrom) {
  const CommandResult result = RunCommand(
      {kTributary, "train", "examples/mnist.textproto", "--print-config",
       "--servers", "3", "--set", "seed=9", "--output", "x"},
      {"TRIBUTARY_THREADS=5"});
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  const std::string& text = result.standard_output;
  EXPECT_THAT(text, HasSubstr("# workers   2 (default)\n"));
  EXPECT_THAT(text, HasSubstr("# servers   3 (--servers)\n"));
  EXPECT_THAT(text,
              HasSubstr("# threads   5 for each worker (TRIBUTARY_THREADS)\n"));
  EXPECT_THAT(text, HasSubstr("# set       seed=9 (--set)\n"));
  EXPECT_THAT(text, HasSubstr("\nseed: 9\n"));
}

}  // namespace
}  // namespace tributary
