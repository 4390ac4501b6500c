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

// Returns the help, after checks of what every help has: lines that fit on a
// screen, and the command's own name.
std::string HelpOf(const std::string& command) {
  std::vector<std::string> arguments =
      absl::StrSplit(command, ' ', absl::SkipEmpty());
  arguments.insert(arguments.begin(), kTributary);
  arguments.push_back("--help");
  const CommandResult result = RunExpecting(0, arguments);
  EXPECT_EQ(result.standard_error, "");
  EXPECT_THAT(result.standard_output, HasSubstr("tributary " + command));
  for (absl::string_view line : absl::StrSplit(result.standard_output, '\n')) {
    EXPECT_LE(line.size(), 80u) << line;
  }
  return result.standard_output;
}

TEST(HelpTest, EachCommandShowsExamplesFirst) {
  const std::string commands = HelpOf("");
  for (const char* command :
       {"train", "server", "worker", "status", "runs", "sample", "export",
        "tokenize", "checkpoint", "compare", "plan", "certs", "bench",
        "devices", "conformance", "sparse", "tune"}) {
    EXPECT_THAT(commands, HasSubstr(command));
    const std::string help = HelpOf(command);
    EXPECT_LT(help.find("Examples:"), help.find("Usage: tributary"));
  }
}

TEST(HelpTest, EachBenchmarkAndEachActionDescribesItself) {
  for (const char* command :
       {"bench step", "bench exchange", "bench stream", "checkpoint ls",
        "checkpoint verify", "checkpoint diff", "tune status", "tune best",
        "tune enqueue"}) {
    HelpOf(command);
  }
}

TEST(TopLevelTest, WithoutArgumentsHelpsOnStderrAndFails) {
  const CommandResult result = RunExpecting(2, {kTributary});
  EXPECT_EQ(result.standard_output, "");
  EXPECT_THAT(result.standard_error, HasSubstr("Usage: tributary COMMAND"));
}

TEST(TopLevelTest, HelpDescribesACommand) {
  const CommandResult result = RunExpecting(0, {kTributary, "help", "train"});
  EXPECT_EQ(result.standard_output,
            RunCommand({kTributary, "train", "--help"}).standard_output);
  EXPECT_EQ(RunCommand({kTributary, "help", "trian"}).exit_code, 2);
}

TEST(TopLevelTest, TellsItsVersion) {
  const CommandResult result = RunExpecting(0, {kTributary, "--version"});
  EXPECT_THAT(result.standard_output, testing::StartsWith("tributary 0."));
}

TEST(PrintConfigTest, ShowsTheJobAndWhereValuesComeFrom) {
  const CommandResult result = RunExpecting(
      0,
      {kTributary, "train", "examples/mnist.textproto", "--print-config",
       "--servers", "3", "--set", "seed=9", "--output", "x"},
      {"TRIBUTARY_THREADS=5"});
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
